"""One pull of a tenant's bundle over HTTP: what is asked, and what the answer comes to."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

import httpx

from guardops.guard.bundle import MAX_BYTES
from guardops.guard.summary import VERSION

BUNDLE_PATH = "/api/v1/bundle"
_CONNECT_SECONDS = 5.0
_SPARE_SECONDS = 10.0
"""How long past the wait that was asked for an answer may take."""
_PIECE = 64 * 1024
_ETAG = re.compile(r'"([\w-]{1,64})\.(\d{1,16})\.([0-9a-f]{16})"', re.ASCII)


class PullFailed(Exception):
    """There was no usable answer; with ``denied`` the key was refused."""

    def __init__(self, message: str, *, denied: bool = False) -> None:
        super().__init__(message)
        self.denied = denied


@dataclass(frozen=True, slots=True)
class Ask:
    """What the guard has: the ETag of its bundle, what is in force, and what it refused."""

    wait: float
    etag: str = ""
    applied: str = ""
    reject: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server answered: a body, or none where the guard has the newest bundle (304)."""

    body: bytes | None
    etag: str
    long_poll: bool
    poll_after: float

    @property
    def name(self) -> str:
        """What ``GuardOps-Reject`` calls the bundle: ``43:<hash16>``; empty where its ETag says nothing."""
        found = _ETAG.fullmatch(self.etag)
        return f"{found[2]}:{found[3]}" if found else ""


class Puller:
    """Asks one server with one key. For one thread at a time; it connects when it is first needed."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        tenant: str = "",
        guard: Callable[[], str],
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._url = url.rstrip("/") + BUNDLE_PATH
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Accept-Encoding": "gzip",
            "User-Agent": f"guardops-guard/{VERSION}",
        } | ({"GuardOps-Tenant": tenant} if tenant else {})
        self._guard = guard
        self._transport = transport
        self._client: httpx.Client | None = None

    def pull(self, ask: Ask) -> Reply:
        """Ask, and return the answer. Raises :class:`PullFailed`."""
        try:
            with self._connected().stream(
                "GET",
                self._url,
                params={"wait": f"{ask.wait:g}"},
                headers=self._headers_of(ask),
                timeout=httpx.Timeout(ask.wait * 17 / 16 + _SPARE_SECONDS, connect=_CONNECT_SECONDS),
            ) as response:
                return self._read(response)
        except (httpx.HTTPError, httpx.InvalidURL, zlib.error) as error:
            raise PullFailed(type(error).__name__) from error

    def _headers_of(self, ask: Ask) -> dict[str, str]:
        said = {"If-None-Match": ask.etag, "GuardOps-Applied": ask.applied, "GuardOps-Reject": ask.reject}
        said["GuardOps-Guard"] = self._guard()
        return self._headers | {name: value for name, value in said.items() if value}

    def _read(self, response: httpx.Response) -> Reply:
        status = response.status_code
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise PullFailed(f"the key was refused (HTTP {status})", denied=True)
        if status not in (HTTPStatus.OK, HTTPStatus.NOT_MODIFIED):
            raise PullFailed(f"HTTP {status}")
        return Reply(
            body=_body_of(response) if status == HTTPStatus.OK else None,
            etag=response.headers.get("ETag", ""),
            long_poll=response.headers.get("GuardOps-Long-Poll") == "1",
            poll_after=_seconds(response.headers.get("GuardOps-Poll-After")),
        )

    def _connected(self) -> httpx.Client:
        if self._client is None:
            self._client = httpx.Client(transport=self._transport, follow_redirects=False)
        return self._client

    def close(self) -> None:
        """Close the connection; the next pull opens another."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def after_fork(self) -> None:
        """In a forked child: leave the connection to the parent."""
        self._client = None


def _body_of(response: httpx.Response) -> bytes:
    """Read a body under the cap, whatever it inflates to; a byte more than the cap stands for all beyond."""
    gzipped = response.headers.get("Content-Encoding", "").lower() == "gzip"
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS) if gzipped else None
    body = bytearray()
    for chunk in response.iter_raw():
        while chunk and len(body) <= MAX_BYTES:
            body += inflater.decompress(chunk, _PIECE) if inflater else chunk
            chunk = inflater.unconsumed_tail if inflater else b""
        if len(body) > MAX_BYTES:
            break
    return bytes(body[: MAX_BYTES + 1])


def _seconds(text: str | None, default: float = 10.0) -> float:
    """Read ``GuardOps-Poll-After``; what makes no sense counts as the usual ten seconds."""
    try:
        seconds = float(text or default)
    except ValueError:
        return default
    return seconds if 1.0 <= seconds <= 3_600.0 else default
