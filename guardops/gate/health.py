"""Is the gate alive, and can it take events? Asked by supervisors and proxies."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from django.db import Error as DatabaseError
from django.db import connection
from litestar import HttpMethod, Response, route
from litestar.di import NamedDependency

from .problems import Refusal
from .services import Services

READY_SECONDS = 2.5
READ = (HttpMethod.GET, HttpMethod.HEAD)


@route(["/livez", "/healthz"], http_method=READ, status_code=HTTPStatus.OK, sync_to_thread=False)
def livez() -> Response[str]:
    return Response("ok\n", media_type="text/plain")


@route("/readyz", http_method=READ, status_code=HTTPStatus.OK)
async def readyz(services: NamedDependency[Services]) -> Response[str]:
    if services.draining:
        raise Refusal("overloaded", "The gate is going down.")
    try:
        async with asyncio.timeout(READY_SECONDS):
            await services.executor.keys(_ask_database)
    except (DatabaseError, TimeoutError):
        raise Refusal("unavailable", "The database doesn't answer.") from None
    return Response("ready\n", media_type="text/plain")


def _ask_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
