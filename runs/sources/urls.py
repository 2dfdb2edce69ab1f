"""Addresses about sources. Names are anybody's text, so they stand in the path with slashes and all."""

from __future__ import annotations

from urllib.parse import urlencode

from django.urls import reverse

from .counts import Days, Source


class SourceNameConverter:
    """Whatever a source may be called, line breaks included."""

    regex = r"[\s\S]+"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


def page_of(source: Source, **params: str) -> str:
    """Return the address of a source's page."""
    query = urlencode({name: value for name, value in params.items() if value})
    address = reverse("runs:source", args=source)
    return f"{address}?{query}" if query else address


def runs_of(source: Source | None, days: Days, *, stopped: bool, **params: str) -> str:
    """Return the list of the runs that used the source in these days, stopped or completed: all for None."""
    pairs = {"from": f"{days.start:%Y-%m-%dT%H:%M:%SZ}", "to": f"{days.end:%Y-%m-%dT%H:%M:%SZ}"}
    pairs |= {"stopped": "1"} if stopped else {"outcome": "completed"}
    if source is not None:
        pairs["source"] = ":".join(source)
    pairs |= {name: value for name, value in params.items() if value}
    return f"{reverse('runs:list')}?{urlencode(pairs, safe=':')}"
