from __future__ import annotations

import re
import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from .actors import request_id

_PLAIN = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


class RequestIdMiddleware:
    """Names each request: audit rows, log lines and the answer carry the name. A proxy's own name is kept."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        name = given if _PLAIN.fullmatch(given) else uuid.uuid4().hex
        token = request_id.set(name)
        try:
            response = self._get_response(request)
        finally:
            request_id.reset(token)
        response.headers["X-Request-ID"] = name
        return response
