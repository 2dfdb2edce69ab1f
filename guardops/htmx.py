"""Which of its two renderings a page is asked for: the whole page, or for htmx the part that it swaps."""

from __future__ import annotations

from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails


class HtmxRequest(HttpRequest):
    """A request as django-htmx's middleware leaves it."""

    htmx: HtmxDetails


def wants_fragment(request: HtmxRequest) -> bool:
    """Say whether htmx asks for a part; a boosted link and a restored history need the whole page."""
    htmx = request.htmx
    return bool(htmx) and not (htmx.boosted or htmx.history_restore_request)
