"""The last page: what people see when a view could not answer."""

from __future__ import annotations

import sys

from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.template import loader
from django.views.decorators.csrf import requires_csrf_token
from django.views.defaults import server_error

RETRY_AFTER_S = 5


@requires_csrf_token
def failed(request: HttpRequest) -> HttpResponse:
    """Answer 503 where the database is out of reach or took longer than a page may, else 500.

    Django calls this while it handles the exception, which the page never quotes.
    """
    if not isinstance(sys.exc_info()[1], OperationalError):
        return server_error(request)
    page = loader.get_template("503.html").render()
    return HttpResponse(
        page, status=503, headers={"Retry-After": str(RETRY_AFTER_S), "Cache-Control": "no-store"}
    )
