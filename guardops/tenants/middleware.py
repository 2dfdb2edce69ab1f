from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from structlog.contextvars import bound_contextvars

_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


class RequestIdMiddleware:
    """Names each request: audit rows, log lines and the answer carry the name. A proxy's own name is kept."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        name = given if _PLAIN.fullmatch(given) else uuid.uuid4().hex
        with bound_contextvars(request_id=name):
            response = self._get_response(request)
        response.headers["X-Request-ID"] = name
        return response
