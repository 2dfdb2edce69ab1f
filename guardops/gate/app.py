"""The door for machines: one Litestar application in the Django project, served by uvicorn."""

from __future__ import annotations

from typing import Any

import django
from litestar import Litestar, Request
from litestar.datastructures import State
from litestar.di import Provide
from litestar.types import Message, Scope
from structlog.contextvars import bind_contextvars

django.setup()

from .bundles import pull_bundle, pull_bundles  # noqa: E402
from .checkpoints import consume_decision, get_checkpoint  # noqa: E402
from .docs import docs, openapi, stylesheet  # noqa: E402
from .events import post_events  # noqa: E402
from .health import livez, readyz  # noqa: E402
from .lifespan import lifespan  # noqa: E402
from .metrics import metrics  # noqa: E402
from .problems import HANDLERS, request_id  # noqa: E402
from .services import Services  # noqa: E402

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]


def provide_services(state: State) -> Services:
    services: Services = state.services
    return services


async def bind_request_id(request: Request[Any, Any, Any]) -> None:
    """Let every log line of a request, and what its threads write, carry its id."""
    bind_contextvars(request_id=request_id(request.scope))


async def add_headers(message: Message, scope: Scope) -> None:
    if message["type"] == "http.response.start":
        headers = list(message["headers"])
        headers += [*_HEADERS, (b"guardops-request-id", request_id(scope).encode())]
        if not any(name.lower() == b"cache-control" for name, _ in headers):
            headers.append((b"cache-control", b"no-store"))
        message["headers"] = headers


def make_app() -> Litestar:
    return Litestar(
        route_handlers=[
            post_events,
            pull_bundle,
            pull_bundles,
            get_checkpoint,
            consume_decision,
            openapi,
            docs,
            stylesheet,
            livez,
            readyz,
            metrics,
        ],
        dependencies={"services": Provide(provide_services, sync_to_thread=False)},
        exception_handlers=dict(HANDLERS),
        before_request=bind_request_id,
        before_send=[add_headers],
        lifespan=[lifespan],
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
    )


app = make_app()
