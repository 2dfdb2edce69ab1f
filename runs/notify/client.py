"""HTTP to addresses that people typed in: nothing inside is reached unless the installation allows it.

The address that is *connected* to is judged, not the name: a name may resolve to anything, and to something
else the next time. No redirects, no proxies, a bounded answer, one deadline for everything.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import certifi
import httpcore
import idna
from django.conf import settings

from guardops.shown import visible_text
from guardops.tenants.errors import GuardOpsError

SECONDS = 10.0
MAX_ANSWER = 4_096  # bytes that are read of an answer
MAX_URL = 2_000
_CONNECT_S = 4.0
_SHOWN = 200  # characters of an answer

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

# IANA's special-purpose registries, and what tunnels to IPv4. The standard library's ``is_private`` and
# ``is_global`` let some of these pass, which ones depends on its version.
_CLOSED = [
    ipaddress.ip_network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
        *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/4", "240.0.0.0/4"),
        *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
    )
]
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")  # all else of IPv6 is local, reserved or mapped
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # IPv4 from a network without it

_resolvers = ThreadPoolExecutor(4, thread_name_prefix="resolve")


class InvalidAddress(GuardOpsError):
    """An address that nobody can be told at, whatever the network looks like."""

    default_code = "invalid_address"


class RefusedAddress(GuardOpsError):
    """The address leads inside, or in the clear over the internet."""

    default_code = "refused_address"


class Unreachable(GuardOpsError):
    """No answer, for now: the name does not resolve, nobody listens, it takes too long, TLS fails."""

    default_code = "unreachable"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the status, how long to wait where that was said, and the beginning of the text.

    ``inside`` says that it came from a network that only ``GUARDOPS_WEBHOOK_ALLOW`` opens: its text is not
    for whoever typed the address in.
    """

    status: int
    text: str
    retry_after_s: float | None = None
    inside: bool = False

    @property
    def taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def shown(self) -> str:
        """Return the answer in a line for whoever set the address up."""
        said = "" if self.inside else " ".join(visible_text(self.text[:_SHOWN]).split())
        return f"It answered {self.status}" + (f": {said}" if said else ".")


@dataclass(frozen=True, slots=True)
class Target:
    """An address in its parts; ``host`` is an A-label or a literal."""

    https: bool
    host: str
    port: int
    path: str

    @property
    def shown(self) -> str:
        """Return what may be shown of it: a path is often a secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == (443 if self.https else 80) else f":{self.port}"
        return f"{'https' if self.https else 'http'}://{host}{port}/" + ("…" if self.path != "/" else "")


def target_of(url: str) -> Target:
    """Return an address in its parts; raises InvalidAddress for what is none, or has a user in it."""
    if len(url) > MAX_URL or not url.isprintable() or any(char.isspace() for char in url):
        raise InvalidAddress("This is no web address.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidAddress("This is no web address.") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise InvalidAddress("Begin the address with https://.")
    if parts.username is not None or parts.password is not None:
        raise InvalidAddress("The address holds a user or a password, which does not belong into it.")
    if port == 0:
        raise InvalidAddress("This is no web address.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        path.encode("ascii")
    except UnicodeEncodeError:
        raise InvalidAddress("Write the address's path in percent-encoding.") from None
    https = parts.scheme == "https"
    return Target(https, _host(parts.hostname), port or (443 if https else 80), path)


def request(
    method: str,
    url: str,
    *,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> Answer:
    """Send a request and return what came back within ``seconds``, whatever its status.

    Raises InvalidAddress, RefusedAddress where none of the name's addresses may be reached, and Unreachable.
    """
    target = target_of(url)
    backend = _Backend(target, time.monotonic() + seconds)
    try:
        with (
            httpcore.ConnectionPool(
                ssl_context=_tls(), max_connections=1, max_keepalive_connections=0, network_backend=backend
            ) as pool,
            pool.stream(
                method,
                httpcore.URL(
                    scheme=b"https" if target.https else b"http",
                    host=target.host.encode(),
                    port=target.port,
                    target=target.path.encode(),
                ),
                headers=[*_headers(target), *(headers or {}).items()],
                content=body,
                extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), seconds)},
            ) as response,
        ):
            return _answer(response, inside=backend.inside)
    except httpcore.TimeoutException:
        raise Unreachable(f"No answer within {seconds:g} seconds.") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError, OSError, ValueError) as error:
        raise Unreachable(_why(error)) from None


def judge(address: Address, *, https: bool) -> None:
    """Raise RefusedAddress for an address that must not be connected to."""
    if any(address in network for network in settings.WEBHOOK_ALLOW if network.version == address.version):
        return
    if not is_public(address):
        raise RefusedAddress("The address leads to a network that GuardOps may not reach.")
    if not https:
        raise RefusedAddress("Over the internet only https:// is used.")


def is_public(address: Address) -> bool:
    """Say whether an address is somebody's on the internet; stricter than the standard library."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL_V6 or address.scope_id is not None:
            return False
    return not any(address in network for network in _CLOSED if network.version == address.version)


class _Backend(httpcore.SyncBackend):
    """Connects to what may be connected to, and to nothing else."""

    def __init__(self, target: Target, deadline: float) -> None:
        self._target = target
        self._deadline = deadline
        self.inside = False

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = Unreachable("The name has no address.")
        for address in _resolve(host, port, self._deadline):
            try:
                judge(address, https=self._target.https)
                left = min(_CONNECT_S, _left(self._deadline))
                stream = super().connect_tcp(str(address), port, left, local_address, socket_options)
            except (RefusedAddress, httpcore.NetworkError, httpcore.TimeoutException) as error:
                failure = error
                continue
            self.inside = not is_public(address)
            return _Hurried(stream, self._deadline)
        raise failure

    def connect_unix_socket(self, *args: Any, **options: Any) -> httpcore.NetworkStream:
        raise RefusedAddress("The address is no web address.")


class _Hurried(httpcore.NetworkStream):
    """A stream on which everything together has to be done by the deadline: drops of a byte do not help."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: float) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(self._deadline))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(self._deadline))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        inside = self._stream.start_tls(ssl_context, server_hostname, _left(self._deadline))
        return _Hurried(inside, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _resolve(host: str, port: int, deadline: float) -> list[Address]:
    # The resolver of the system knows no deadline; one that hangs costs a thread of four, not the request.
    asked = _resolvers.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        found = asked.result(timeout=_left(deadline))
    except NotInTime:
        raise Unreachable("The name takes too long to resolve.") from None
    except (OSError, UnicodeError):
        raise Unreachable("The name does not resolve.") from None
    return list(dict.fromkeys(ipaddress.ip_address(str(entry[4][0])) for entry in found))


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the deadline has passed")
    return left


def _answer(response: httpcore.Response, *, inside: bool) -> Answer:
    text = b""
    for chunk in response.iter_stream():
        text += chunk
        if len(text) >= MAX_ANSWER:
            break
    wait = next((value for name, value in response.headers if name.lower() == b"retry-after"), b"")
    seconds = float(wait) if wait.isdigit() and len(wait) < 8 else None
    return Answer(response.status, text[:MAX_ANSWER].decode(errors="replace"), seconds, inside)


def _headers(target: Target) -> list[tuple[str, str]]:
    host = f"[{target.host}]" if ":" in target.host else target.host
    usual = target.port == (443 if target.https else 80)
    return [
        ("Host", host if usual else f"{host}:{target.port}"),
        ("User-Agent", "GuardOps"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ]


def _host(name: str) -> str:
    if name.isascii():
        return name.lower().rstrip(".") or name
    try:
        return idna.encode(name, uts46=True).decode()
    except idna.IDNAError:
        raise InvalidAddress("The address names no host.") from None


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) or "SSL" in str(error) or "certificate" in str(error):
        return "TLS failed: the certificate is not trusted, or the host does not speak TLS."
    if isinstance(error, httpcore.ConnectError):
        return "Nobody listens there."
    return "The connection broke off, or what came back was no HTTP."


@cache
def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())  # slim images trust nobody by themselves
    return context
