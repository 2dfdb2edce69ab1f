"""`GET /api/v1/bundle` and `POST /api/v1/bundles`: guards pull their policies, and wait for the next ones.

Answered from memory and, while a guard waits, without a thread: plain ASGI, since a thousand guards ask again
the moment they have been answered.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from litestar import Request, asgi
from litestar.exceptions import MethodNotAllowedException
from litestar.types import HTTPScope, Receive, Scope, Send

from guardops.guard.bundle import short_hash
from guardops.guard.replies import BundleAsked, BundlesAsked, BundlesReply
from guardops.tenants.choices import Scope as KeyScope
from guardops.tenants.keys import KeyHolder
from policies.pull.fleet import Fleet, Sign, read_reject
from policies.pull.hub import Hub, Woken
from policies.pull.reading import Held

from .bodies import AnyRequest
from .problems import Refusal
from .services import Services
from .waiting import hung_up, seconds_to_hold

MAX_SAID = 256
"""Characters of a header that are kept; none that means something is longer."""
POLL_AFTER = b"10"
POLL_AFTER_FULL = b"15"
_READ = frozenset(
    {
        b"accept-encoding",
        b"authorization",
        b"guardops-applied",
        b"guardops-guard",
        b"guardops-reject",
        b"guardops-tenant",
        b"if-none-match",
        b"user-agent",
    }
)
_SHARED = [(b"cache-control", b"private, no-store"), (b"vary", b"Authorization")]


class Asked(NamedTuple):
    """What a guard has of one tenant's bundle: its ETag, and what it refused to put in force."""

    etag: str
    reject: str

    def has(self, held: Held) -> bool:
        """Say whether the guard needs nothing: it has this bundle, or has refused this very one."""
        if self.etag == held.etag:
            return True
        refused = read_reject(self.reject) if self.reject else None
        return (
            refused is not None
            and refused.revision == held.revision
            and refused.hash16 == short_hash(held.content_hash)
        )


@asgi("/api/v1/bundle", copy_scope=False)
async def pull_bundle(scope: HTTPScope, receive: Receive, send: Send) -> None:
    services: Services = scope["litestar_app"].state.services
    if scope["method"] not in ("GET", "HEAD"):
        raise MethodNotAllowedException(headers={"Allow": "GET, HEAD"})
    headers = _read_headers(scope)
    holder = await _admit(services, headers)
    tenant_id = holder.tenant_id(headers.get(b"guardops-tenant"))
    reject = headers.get(b"guardops-reject", "")
    _see(services.fleet, tenant_id, headers, headers.get(b"guardops-applied", ""), reject)
    asked = Asked(headers.get(b"if-none-match", ""), reject)
    held = await _newest(services.hub, tenant_id)
    long_poll = not services.hub.full
    seconds = seconds_to_hold(scope["query_string"]) if long_poll else 0.0
    if seconds and asked.has(held):
        if not await _wait(services.hub, [tenant_id], holder, seconds, receive):
            return
        held = await _newest(services.hub, tenant_id)
    answer = _poll_headers(long_poll)
    answer += [(b"etag", held.etag.encode()), (b"guardops-revision", str(held.revision).encode())]
    if asked.has(held):
        await _send(send, 304, answer)
    else:
        await _send_bundle(send, held.packed, answer, headers, head=scope["method"] == "HEAD")


@asgi("/api/v1/bundles", copy_scope=False)
async def pull_bundles(scope: HTTPScope, receive: Receive, send: Send) -> None:
    services: Services = scope["litestar_app"].state.services
    if scope["method"] != "POST":
        raise MethodNotAllowedException(headers={"Allow": "POST"})
    headers = _read_headers(scope)
    holder = await _admit(services, headers)
    wanted = await _read_wanted(scope, receive, services)
    known = {slug: holder.tenants[slug] for slug in sorted(wanted) if slug in holder.tenants}
    for slug, tenant_id in known.items():
        _see(services.fleet, tenant_id, headers, wanted[slug].applied, wanted[slug].reject)
    asked = {slug: Asked(wanted[slug].etag, wanted[slug].reject) for slug in known}
    held = await _newest_of(services.hub, known)
    long_poll = not services.hub.full
    seconds = seconds_to_hold(scope["query_string"]) if long_poll else 0.0
    if seconds and len(held) == len(wanted) and all(asked[slug].has(held[slug]) for slug in held):
        if not await _wait(services.hub, known.values(), holder, seconds, receive):
            return
        held = await _newest_of(services.hub, known)
    changed = {slug: bundle for slug, bundle in held.items() if not asked[slug].has(bundle)}
    removed = sorted(wanted.keys() - held.keys())
    answer = _poll_headers(long_poll)
    if changed or removed:
        packed = await services.executor.compute(_join, changed, held, removed)
        await _send_bundle(send, packed, answer, headers)
    else:
        await _send(send, 304, answer)


def _read_headers(scope: Scope) -> dict[bytes, str]:
    """Return the headers that a pull may carry; of several the last one."""
    return {name: value.decode("latin-1") for name, value in scope["headers"] if name in _READ}


async def _admit(services: Services, headers: Mapping[bytes, str]) -> KeyHolder:
    holder = await services.admission.admit(headers.get(b"authorization"))
    holder.require(KeyScope.BUNDLE_READ)
    return holder


def _see(fleet: Fleet, tenant_id: int, headers: Mapping[bytes, str], applied: str, reject: str) -> None:
    if guard := headers.get(b"guardops-guard"):
        agent = headers.get(b"user-agent", "")
        sign = Sign(datetime.now(UTC), applied[:MAX_SAID], reject[:MAX_SAID], agent[:MAX_SAID])
        fleet.seen(tenant_id, guard[:MAX_SAID], sign)


async def _wait(
    hub: Hub, tenant_ids: Collection[int], holder: KeyHolder, seconds: float, receive: Receive
) -> bool:
    """Wait for news; False where there is nobody left to answer."""
    why = await hub.wait(tenant_ids, holder.key_id, seconds, hung_up(receive))
    if why is Woken.KEY_DEAD:
        raise Refusal("key_revoked", "The key ended while its guard waited.")
    return why is not Woken.GONE


async def _newest(hub: Hub, tenant_id: int) -> Held:
    held = hub.peek(tenant_id) or (await hub.get([tenant_id])).get(tenant_id)
    if held is None:
        raise Refusal("unknown_tenant", "The tenant is gone.")
    return held


async def _newest_of(hub: Hub, tenants: Mapping[str, int]) -> dict[str, Held]:
    """Return the bundles of those tenants that are still there, by slug."""
    found = await hub.get(tenants.values())
    return {slug: found[tenant_id] for slug, tenant_id in tenants.items() if tenant_id in found}


async def _read_wanted(scope: Scope, receive: Receive, services: Services) -> dict[str, BundleAsked]:
    request: AnyRequest = Request(scope, receive=receive)
    async with services.bodies.read(request) as body:
        try:
            return msgspec.json.decode(body, type=BundlesAsked).tenants
        except msgspec.ValidationError as error:
            raise Refusal("bad_request", str(error)) from None
        except (msgspec.DecodeError, RecursionError):
            raise Refusal("not_json", "Send an object with tenants.") from None


def _join(changed: Mapping[str, Held], held: Mapping[str, Held], removed: list[str]) -> bytes:
    """Return the answer for many tenants, gzipped; each bundle is byte for byte what its hash proves."""
    reply = BundlesReply(
        bundles={slug: msgspec.Raw(gzip.decompress(bundle.packed)) for slug, bundle in changed.items()},
        revisions={slug: bundle.revision for slug, bundle in held.items()},
        removed=removed,
    )
    return gzip.compress(msgspec.json.encode(reply), compresslevel=1, mtime=0)


def _poll_headers(long_poll: bool) -> list[tuple[bytes, bytes]]:
    if long_poll:
        return [*_SHARED, (b"guardops-long-poll", b"1"), (b"guardops-poll-after", POLL_AFTER)]
    return [*_SHARED, (b"guardops-long-poll", b"0"), (b"guardops-poll-after", POLL_AFTER_FULL)]


async def _send_bundle(
    send: Send,
    packed: bytes,
    answer: list[tuple[bytes, bytes]],
    headers: Mapping[bytes, str],
    *,
    head: bool = False,
) -> None:
    answer += [(b"content-type", b"application/json")]
    if "gzip" in headers.get(b"accept-encoding", ""):
        answer += [(b"content-encoding", b"gzip")]
    else:
        packed = gzip.decompress(packed)
    answer += [(b"content-length", str(len(packed)).encode())]
    await _send(send, 200, answer, b"" if head else packed)


async def _send(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes = b"") -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
