"""Live now, above the measures: each number links to exactly its runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from django.urls import reverse

from runs.pages.limits import label_of
from runs.reports.metrics import LiveCounts

SHOWN_LIMITS = 3


@dataclass(frozen=True, slots=True)
class LimitLink:
    """A limit that runs are near: its name in words, how many runs, and the list of them."""

    label: str
    runs: int
    href: str


@dataclass(frozen=True, slots=True)
class LivePanel:
    counts: LiveCounts
    runs_href: str
    pressed_href: str
    silent_href: str
    limits: tuple[LimitLink, ...]
    more_limits: int


def live_panel(counts: LiveCounts, scope: Mapping[str, str]) -> LivePanel:
    """Return the panel; ``scope`` has tenant, job and release where the page is narrowed to them."""

    def href(**more: str) -> str:
        query = urlencode({**scope, **more})
        return f"{reverse('runs:live')}?{query}" if query else reverse("runs:live")

    limits = [
        LimitLink(
            label_of(name) if name else "a limit without a name", runs, href(state="pressure", limit=name)
        )
        for name, runs in counts.limits[:SHOWN_LIMITS]
    ]
    return LivePanel(
        counts=counts,
        runs_href=href(),
        pressed_href=href(state="pressure"),
        silent_href=href(state="silent"),
        limits=tuple(limits),
        more_limits=len(counts.limits) - len(limits),
    )
