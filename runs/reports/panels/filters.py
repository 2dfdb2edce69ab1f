"""The filters in the top bar, as the options of plain selects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils import timezone

from guardops.tenants.access import Visible
from runs.reports.asked import Asked
from runs.reports.metrics import Overview, Window
from runs.reports.windows import DEFAULT_RANGE

RANGES = {
    "1h": "Last 1 h",
    "6h": "Last 6 h",
    "24h": "Last 24 h",
    "7d": "Last 7 days",
    "14d": "Last 14 days",
    "30d": "Last 30 days",
    "90d": "Last 90 days",
}


@dataclass(frozen=True, slots=True)
class Option:
    value: str
    label: str
    selected: bool


@dataclass(frozen=True, slots=True)
class Pick:
    """One select: its name in the address, and whether it narrows what is shown."""

    name: str
    label: str
    options: tuple[Option, ...]
    narrows: bool


@dataclass(frozen=True, slots=True)
class Filters:
    picks: tuple[Pick, ...]
    hidden: tuple[tuple[str, str], ...]  # what the form keeps beside them
    clear_href: str  # without job type and release, over 90 days


def filters_of(asked: Asked, seen: Visible, found: Overview) -> Filters:
    scope, links = asked.scope, asked.links
    picks = [range_pick(asked.window)]
    if len(seen.tenants) > 1:
        tenants = [(tenant.slug, tenant.slug) for tenant in seen.tenants]
        picks.append(pick_of("tenant", "Tenant", tenants, asked.tenant, f"All {len(tenants)}"))
    picks.append(pick_of("job", "Job type", named(found.job_types, scope.job_type), scope.job_type or ""))
    picks.append(pick_of("release", "Release", named(found.releases, scope.release), scope.release or ""))
    shown = {pick.name for pick in picks} | {"range"}
    hidden = tuple((name, value) for name, value in links.query.items() if value and name not in shown)
    return Filters(
        tuple(picks),
        hidden,
        links.page(**{"job": None, "release": None, "range": "90d", "from": None, "to": None}),
    )


def window_name(window: Window) -> str:
    """Return ``24 h``, or both ends of a window that was given by them."""
    if window.key in RANGES:
        return RANGES[window.key].removeprefix("Last ")
    start, end = timezone.localtime(window.start), timezone.localtime(window.end)
    return f"{start.day} {start:%b %H:%M} – {end.day} {end:%b %H:%M}"


def range_pick(window: Window | None) -> Pick:
    """Return the select of ranges; without a window, which could not be read, none of them is chosen."""
    if window is None:
        options = [Option("", "Choose", True), *(Option(key, label, False) for key, label in RANGES.items())]
        return Pick("range", "Range", tuple(options), True)
    options = [Option(key, label, key == window.key) for key, label in RANGES.items()]
    custom = window.key not in RANGES
    if custom:  # empty, so that the ends beside it count
        options.insert(0, Option("", window_name(window), True))
    return Pick("range", "Range", tuple(options), custom or window.key != DEFAULT_RANGE)


def pick_of(
    name: str, label: str, choices: Iterable[tuple[str, str]], chosen: str, everything: str = "All"
) -> Pick:
    options = [Option("", everything, not chosen)]
    options += [Option(value, text, value == chosen) for value, text in choices]
    return Pick(name, label, tuple(options), bool(chosen))


def named(names: Iterable[str], chosen: str | None) -> list[tuple[str, str]]:
    """Name what was found in the window, and what is chosen even where nothing of it was found."""
    return [(name, name) for name in sorted({*names, chosen or ""} - {""})]
