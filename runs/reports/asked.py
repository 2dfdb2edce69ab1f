"""What an address of the overview asks for, read strictly: nonsense is said, never guessed around."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from guardops.guard.events import StepUnit
from guardops.shown import from_visible
from guardops.tenants.access import Visible

from .metrics import Scope, Window
from .panels.links import Links
from .windows import parse_window

ALL_TENANTS = 0  # the roll-ups' tenant for all of them together

_LONGEST = {"job": 128, "release": 257, "steps_job": 128}  # "release+prompt_version"
_VIEWS = ("", "table")
_KEPT = ("range", "from", "to", "tenant", "job", "release", "halts", "steps", "steps_job", "steps_unit")


class NotAsked(ValueError):
    """The address holds a value that makes no sense; the message says which, for people."""


@dataclass(frozen=True, slots=True)
class Asked:
    scope: Scope
    window: Window
    tenant: str  # slug, empty for all that are visible
    steps_job: tuple[str, str] | None
    halts_table: bool
    steps_table: bool
    links: Links

    @property
    def narrowed(self) -> bool:
        """Say whether a job type or release narrows what is counted."""
        return bool(self.scope.job_type or self.scope.release)


def read_asked(params: Mapping[str, str], seen: Visible, *, now: datetime, zone: str) -> Asked:
    """Read the parameters of the overview.

    Raises NotAsked and WindowError for what makes no sense, Http404 for a tenant that is not ``seen``.
    """
    query = {name: params.get(name, "") for name in _KEPT}
    if query["range"]:  # chosen beside the ends of an own window: it takes their place
        query |= {"from": "", "to": ""}
    for name, longest in _LONGEST.items():
        query[name] = from_visible(query[name])
        if len(query[name]) > longest or "\0" in query[name]:
            raise NotAsked(f"The {name} in the address is no name that a run can have.")
    for name in ("halts", "steps"):
        if query[name] not in _VIEWS:
            raise NotAsked(f"{name} is chart, or table with {name}=table.")
    window = parse_window(query, now, zone)
    return Asked(
        scope=Scope(tenant_ids_of(query["tenant"], seen), query["job"] or None, query["release"] or None),
        window=window,
        tenant=query["tenant"],
        steps_job=_steps_job(query),
        halts_table=query["halts"] == "table",
        steps_table=query["steps"] == "table",
        links=Links({name: query[name] for name in ("tenant", "job", "release") if query[name]}, query),
    )


def tenant_ids_of(slug: str, seen: Visible) -> tuple[int, ...]:
    if slug:
        return (seen.by_slug(slug).pk,)
    return (ALL_TENANTS,) if seen.all_tenants else tuple(seen.ids)


def _steps_job(query: Mapping[str, str]) -> tuple[str, str] | None:
    if not query["steps_job"]:
        return None
    if query["steps_unit"] not in set(StepUnit):
        raise NotAsked(f"steps_unit is one of {', '.join(StepUnit)}.")
    return query["steps_job"], query["steps_unit"]
