"""`GET /metrics` of the gate: what it counts itself, and the state that every door tells."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus

from litestar import Response, get
from litestar.di import NamedDependency

from runs.health.metrics import CONTENT_TYPE, may_scrape, render

from .bodies import AnyRequest
from .counts import DRAINING, WAITS
from .problems import Refusal
from .services import Services


@get("/metrics", status_code=HTTPStatus.OK)
async def metrics(request: AnyRequest, services: NamedDependency[Services]) -> Response[bytes]:
    peer = request.client.host if request.client else ""
    forwarded = "x-forwarded-for" in request.headers or "forwarded" in request.headers
    if not may_scrape(request.headers.get("authorization", ""), peer, forwarded=forwarded):
        raise Refusal("not_found")
    DRAINING.set(services.draining)
    WAITS.set(services.hub.waits)
    page = await services.executor.keys(render, datetime.now(UTC))
    return Response(page, media_type=CONTENT_TYPE)
