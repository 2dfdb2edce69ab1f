"""What a page knows of the person who looks at it: the zone their times and days are in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

ZONE_COOKIE = "zone"
ZONE_OF_SESSION = "zone"
"""Where the session keeps the zone of the person's organisation."""


def zone_named(name: str) -> ZoneInfo | None:
    """Return the IANA zone of that name, or None where there is none."""
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):  # unknown, not a name, or a folder of the zone database
        return None


def current_zone() -> str:
    """Return the IANA name of the zone that times are shown in.

    Django's own function gives a zone's abbreviation where it has no summer time: ``-05`` for Etc/GMT+5.
    """
    return str(timezone.get_current_timezone())


def zone_of(request: HttpRequest) -> ZoneInfo | None:
    """Return the zone that the page's clock was set to; None is UTC.

    Who has set none has their organisation's, as of their sign-in.
    """
    chosen = request.COOKIES.get(ZONE_COOKIE)
    if chosen is None and hasattr(request, "session"):
        chosen = request.session.get(ZONE_OF_SESSION)
    return zone_named(chosen or "")


class ViewerZoneMiddleware:
    """Render times in the zone of whoever looks."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with timezone.override(zone_of(request)):
            return self.get_response(request)


def viewer(request: HttpRequest) -> dict[str, Any]:
    """Context of every page: whether its clock is the viewer's own, and when it was made."""
    return {
        "clock_is_local": current_zone() != "UTC",
        "as_of": timezone.now(),
    }
