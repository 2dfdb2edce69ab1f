"""`/api/v1/checkpoints/{id}`: guards ask what people decided, wait for it, and take a decision up, once.

A request that waits takes no thread. What is handed out counts as delivered; only what was consumed may be
carried out.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from uuid import UUID

import msgspec
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath

from guardops.guard.decisions import CheckpointReply, CheckpointState, Consume, Grant
from guardops.tenants.choices import Scope
from guardops.tenants.errors import GuardOpsError
from guardops.tenants.keys import KeyHolder
from runs.checkpoints.deliver import consume, read_reply
from runs.checkpoints.waits import Key, Why

from .bodies import AnyRequest, discard
from .problems import Refusal
from .services import Services
from .waiting import hung_up, seconds_to_hold

_OVER = (CheckpointState.EXPIRED, CheckpointState.UNDELIVERABLE)


@get("/api/v1/checkpoints/{checkpoint_id:str}", status_code=HTTPStatus.OK)
async def get_checkpoint(
    request: AnyRequest, services: NamedDependency[Services], checkpoint_id: FromPath[str]
) -> Response[bytes]:
    holder, key = await _admit(request, services, checkpoint_id)
    reply = await _stands(request, services, holder, key)
    return Response(msgspec.json.encode(reply), media_type="application/json")


@post("/api/v1/checkpoints/{checkpoint_id:str}/consume", status_code=HTTPStatus.OK)
async def consume_decision(
    request: AnyRequest, services: NamedDependency[Services], checkpoint_id: FromPath[str]
) -> Response[bytes]:
    try:
        grant = await _consume(request, services, checkpoint_id)
    except GuardOpsError:
        await discard(request)
        raise
    return Response(msgspec.json.encode(grant), media_type="application/json")


async def _admit(request: AnyRequest, services: Services, checkpoint_id: str) -> tuple[KeyHolder, Key]:
    holder = await services.admission.admit(request.headers.get("authorization"))
    holder.require(Scope.CHECKPOINTS)
    tenant_id = holder.tenant_id(request.headers.get("guardops-tenant"))
    try:
        return holder, (tenant_id, UUID(checkpoint_id))
    except ValueError:
        raise Refusal("unknown_checkpoint", "A checkpoint's id is a UUID.") from None


async def _stands(request: AnyRequest, services: Services, holder: KeyHolder, key: Key) -> CheckpointReply:
    """Return where a checkpoint stands, once there is something to act on or the time is over."""
    loop = asyncio.get_running_loop()
    asked = seconds_to_hold(request.scope["query_string"])
    until = loop.time() + (0.0 if services.waits.full else asked)
    async with services.waits.seat(key, holder.key_id, hung_up(request.receive)) as seat:
        while True:
            reply = await services.executor.db(read_reply, *key, datetime.now(UTC))
            left = until - loop.time()
            if reply.decision is not None or reply.state in _OVER or left <= 0:
                return reply
            why = await seat.wait(left)
            if why is Why.KEY_DEAD:
                raise Refusal("key_revoked", "The key ended while its guard waited.")
            if why is Why.GONE:
                return reply  # to nobody: a decision that came meanwhile is not handed out
            if why is not Why.NEWS:
                until = loop.time()


async def _consume(request: AnyRequest, services: Services, checkpoint_id: str) -> Grant:
    _, (tenant_id, found) = await _admit(request, services, checkpoint_id)
    async with services.bodies.read(request) as body:
        try:
            wanted = msgspec.json.decode(body, type=Consume)
        except msgspec.ValidationError as error:
            raise Refusal("bad_request", str(error)) from None
        except (msgspec.DecodeError, RecursionError):
            raise Refusal("not_json", "Send decision_id, attempt_id and artifact_digest.") from None
    return await services.executor.db(consume, tenant_id, found, wanted, datetime.now(UTC))
