"""Is this process alive, and can it show pages? Asked by supervisors and proxies."""

from __future__ import annotations

from http import HTTPStatus

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

_PLAIN = "text/plain; charset=utf-8"
_FRESH = {"Cache-Control": "no-store"}


@login_not_required
@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """Answer without the database: what is away is no reason to restart this process."""
    return HttpResponse("ok\n", content_type=_PLAIN, headers=_FRESH)


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Answer 503 while the database is out of reach; the pool gives up after two seconds."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (DatabaseError, InterfaceError):
        said, status = "The database doesn't answer.\n", HTTPStatus.SERVICE_UNAVAILABLE
        return HttpResponse(said, status=status, content_type=_PLAIN, headers=_FRESH | {"Retry-After": "2"})
    return HttpResponse("ready\n", content_type=_PLAIN, headers=_FRESH)
