from __future__ import annotations

from zoneinfo import ZoneInfo

from django.core.exceptions import ValidationError


def known_zone(name: str) -> None:
    """Raise ValidationError unless ``name`` is an IANA time zone."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, no name at all, or a folder of the zone database
        raise ValidationError("There is no time zone %(name)s.", params={"name": name}) from None
