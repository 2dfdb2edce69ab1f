"""Asks the gate what was decided, and takes a decision up: single requests over HTTP, plain or asynchronous.

A request that is held takes no thread of its own but the caller's, and in an event loop not even that.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

import httpx
import msgspec

from guardops.guard.decisions import Consume
from guardops.guard.retry_after import seconds_to_wait
from guardops.guard.summary import VERSION

CHECKPOINTS_PATH = "/api/v1/checkpoints"
MAX_WAIT = 30.0
"""How long one request asks to be held, in seconds."""
MAX_REPLY_BYTES = 512 * 1024
_CONNECT_SECONDS = 5.0
_SPARE_SECONDS = 10.0
_NO_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=8)


class Question(NamedTuple):
    """One request: where a checkpoint stands (held for ``wait`` seconds), or a decision to be consumed."""

    checkpoint_id: UUID
    wait: float = 0.0
    consume: Consume | None = None
    tenant: str = ""
    """Which tenant's it is, where the key covers several."""


class Answered(NamedTuple):
    """What came back; status 0 where nothing did. ``took`` and ``retry_after`` are seconds."""

    status: int
    body: bytes = b""
    retry_after: float | None = None
    took: float = 0.0


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    params: dict[str, str]
    content: bytes | None
    headers: dict[str, str]
    timeout: httpx.Timeout


class Desk:
    """One gate, asked with one key. Any thread and any event loop may ask."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        tenant: str = "",
        transport: httpx.BaseTransport | None = None,
        async_transport: httpx.AsyncBaseTransport | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.url = url.rstrip("/")
        self._tenant = tenant
        self.whose = key.rpartition("_")[0] or key
        """The key's public part, which says whose checkpoints are asked for."""
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": f"guardops-guard/{VERSION}",
        }
        self._transport = transport
        self._async_transport = async_transport
        self._now = now
        self._client: httpx.Client | None = None
        self._pid = 0

    def ask(self, question: Question) -> Answered:
        """Ask, and wait for the answer."""
        request, began = self._request(question), time.monotonic()
        try:
            with self._connected().stream(
                request.method,
                request.url,
                params=request.params,
                content=request.content,
                headers=request.headers,
                timeout=request.timeout,
            ) as response:
                body = bytearray()
                for chunk in response.iter_raw():
                    body += chunk
                    if len(body) > MAX_REPLY_BYTES:
                        return Answered(0)
                return self._answered(response, bytes(body), began)
        except (httpx.HTTPError, httpx.InvalidURL):
            return Answered(0, took=time.monotonic() - began)

    async def aask(self, question: Question) -> Answered:
        """Do the same in an event loop."""
        request, began = self._request(question), time.monotonic()
        try:
            async with (
                httpx.AsyncClient(
                    transport=self._async_transport, verify=_trust(), follow_redirects=False
                ) as client,
                client.stream(
                    request.method,
                    request.url,
                    params=request.params,
                    content=request.content,
                    headers=request.headers,
                    timeout=request.timeout,
                ) as response,
            ):
                body = bytearray()
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_REPLY_BYTES:
                        return Answered(0)
                return self._answered(response, bytes(body), began)
        except (httpx.HTTPError, httpx.InvalidURL):
            return Answered(0, took=time.monotonic() - began)

    def close(self) -> None:
        """Close the connections; the next question opens another."""
        if self._client is not None and self._pid == os.getpid():
            self._client.close()
        self._client = None

    def _request(self, question: Question) -> _Request:
        url = f"{self.url}{CHECKPOINTS_PATH}/{question.checkpoint_id}"
        seconds = question.wait * 17 / 16 + _SPARE_SECONDS
        timeout = httpx.Timeout(seconds, connect=_CONNECT_SECONDS)
        tenant = question.tenant or self._tenant
        headers = self._headers | ({"GuardOps-Tenant": tenant} if tenant else {})
        if question.consume is None:
            return _Request("GET", url, {"wait": f"{question.wait:g}"}, None, headers, timeout)
        body = msgspec.json.encode(question.consume)
        return _Request("POST", f"{url}/consume", {}, body, headers, timeout)

    def _answered(self, response: httpx.Response, body: bytes, began: float) -> Answered:
        retry_after = seconds_to_wait(response.headers.get("Retry-After"), self._now())
        return Answered(response.status_code, body, retry_after, time.monotonic() - began)

    def _connected(self) -> httpx.Client:
        if self._client is None or self._pid != os.getpid():  # a parent's connections are the parent's
            self._pid = os.getpid()
            self._client = httpx.Client(
                transport=self._transport, verify=_trust(), follow_redirects=False, limits=_NO_LIMITS
            )
        return self._client


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """Return what certificates are checked against; reading it takes tens of milliseconds."""
    return httpx.create_ssl_context()
