"""The page of guard quality: the four figures, a sample by chance to review, and precision by detector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from guardops.shown import from_visible
from guardops.tenants.access import Visible, tenants_with_role, visible
from guardops.tenants.choices import Role
from guardops.viewer import current_zone
from runs.choices import StopVerdict
from runs.reports.asked import NotAsked, tenant_ids_of
from runs.reports.intervals import wilson
from runs.reports.metrics import Scope, Window
from runs.reports.pages import PageRequest
from runs.reports.panels.filters import Pick, named, pick_of, range_pick, window_name
from runs.reports.panels.links import Links, Value
from runs.reports.windows import WindowError, parse_window

from .quality import Drawn, Kind, Quality, Verdicts, read_quality

DEFAULT_RANGE = "14d"
MOST_ROWS = 100
ENOUGH = 10  # reviews from which on a precision is worth a word
GOOD = 0.8
_KEPT = ("range", "from", "to", "tenant", "job")
_LONGEST_JOB = 128


@dataclass(frozen=True, slots=True)
class Asked:
    scope: Scope
    window: Window
    tenant: str  # slug, empty for all that are visible
    links: Links

    def runs(self, **filters: Value) -> str:
        """Return the address of the runs of the window that match the filters."""
        return self.links.runs(self.window.start, self.window.end, **filters)


@dataclass(frozen=True, slots=True)
class Figure:
    """A tile: ``part`` of ``whole``; each is a link where there is a list of just what it counts."""

    name: str
    value: float | None
    as_share: bool
    part: int
    part_name: str
    part_href: str
    whole: int
    whole_name: str
    whole_href: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Stops of one kind and what reviewers found, with the links to their rows."""

    stops: int
    verdicts: Verdicts
    stops_href: str
    reviewed_href: str
    false_href: str

    @property
    def reading(self) -> tuple[str, str, str]:
        """Return the state, icon and words of what the reviews show."""
        low, high = self.verdicts.interval
        if not self.verdicts.reviewed:
            return "", "same", "not reviewed"
        if self.verdicts.reviewed < ENOUGH:
            return "", "same", "too few reviews"
        if low >= GOOD:
            return "ok", "ok", "mostly right"
        return ("warn", "warn", "often wrong") if high < GOOD else ("", "same", "not certain")


@dataclass(frozen=True, slots=True)
class Row:
    kind: Kind
    cell: Cell


@dataclass(frozen=True, slots=True)
class Against:
    """A detector where it stops runs, and where it only watches them."""

    detector: str
    enforced: Cell
    watched: Cell


@dataclass(frozen=True, slots=True)
class Sampled:
    """A run of the sample with its links; ``review`` is empty where the reader may not review it."""

    drawn: Drawn
    tenant: str
    page: str
    review: str


@require_safe
def quality(request: PageRequest) -> HttpResponse:
    now, seen = timezone.now(), visible(request.user)
    if not seen.tenants:
        return render(request, "runs/no_tenant.html")
    try:
        asked = read_asked(request.GET, seen, zone=current_zone())
    except (NotAsked, WindowError) as problem:
        return render(request, "400.html", {"problem": str(problem)}, status=400)
    found = read_quality(asked.scope, asked.window, now=now)
    kinds = rows_of(found, asked)
    context = {
        "found": found,
        "as_of": found.as_of.at,
        "picks": picks_of(asked, seen, found),
        "window_name": window_name(asked.window),
        "figures": figures_of(found, asked),
        "rows": kinds[:MOST_ROWS],
        "more": max(0, len(kinds) - MOST_ROWS),
        "against": against_of(found, asked),
        "sample": sampled_of(found.sample, seen, request),
        "estimate": estimate(found),
        "false_href": asked.runs(stopped=1, review=StopVerdict.FALSE_STOP),
        "wider": f"{reverse('runs:quality')}?range=90d",
    }
    return render(request, "runs/quality.html", context)


def read_asked(params: Mapping[str, str], seen: Visible, *, zone: str) -> Asked:
    """Read the address. Raises NotAsked and WindowError for nonsense, Http404 for a tenant not ``seen``."""
    query = {name: params.get(name, "") for name in _KEPT}
    query["job"] = from_visible(query["job"])
    if len(query["job"]) > _LONGEST_JOB or "\0" in query["job"]:
        raise NotAsked("The job in the address is no name that a job type can have.")
    if query["range"]:
        query |= {"from": "", "to": ""}
    elif not (query["from"] or query["to"]):
        query["range"] = DEFAULT_RANGE
    scope = Scope(tenant_ids_of(query["tenant"], seen), query["job"] or None)
    kept = {name: query[name] for name in ("tenant", "job") if query[name]}
    window = parse_window(query, timezone.now(), zone)
    return Asked(scope, window, query["tenant"], Links(kept, query))


def picks_of(asked: Asked, seen: Visible, found: Quality) -> list[Pick]:
    picks = [range_pick(asked.window)]
    if len(seen.tenants) > 1:
        tenants = [(tenant.slug, tenant.slug) for tenant in seen.tenants]
        picks.append(pick_of("tenant", "Tenant", tenants, asked.tenant, f"All {len(tenants)}"))
    jobs = named(found.job_types, asked.scope.job_type)
    return [*picks, pick_of("job", "Job type", jobs, asked.scope.job_type or "")]


def figures_of(found: Quality, asked: Asked) -> list[Figure]:
    """Return the first three of the four figures; the fourth has an interval of its own."""
    counts = found.counts
    eligible = (counts.eligible, "eligible tasks", asked.runs(eligible=1))
    parts = [
        (
            "Completed of eligible tasks",
            True,
            counts.completed,
            "completed",
            asked.runs(completes=1),
            *eligible,
        ),
        ("Tool calls an eligible task", False, counts.tool_calls, "tool calls", "", *eligible),
        (
            "No-progress stops an unresolved task",
            False,
            found.progress_stops,
            "stops without progress",
            asked.runs(family="progress"),
            found.unresolved_tasks,
            "eligible tasks not completed",
            "",
        ),
    ]
    return [
        Figure(name, part / whole if whole else None, as_share, part, part_name, part_href, whole, *rest)
        for name, as_share, part, part_name, part_href, whole, *rest in parts
    ]


def rows_of(found: Quality, asked: Asked) -> list[Row]:
    """Return a row a detector, job type and mode, those with most stops first."""
    verdicts = found.verdicts
    kinds = sorted({*found.stops, *verdicts}, key=lambda kind: (-found.stops.get(kind, 0), kind))
    return [
        Row(kind, cell_of(kind, found.stops.get(kind, 0), verdicts.get(kind, Verdicts()), asked))
        for kind in kinds
    ]


def against_of(found: Quality, asked: Asked) -> list[Against]:
    """Return a row a detector: where it stops runs, and where it would have but for shadow mode."""
    stops: dict[Kind, int] = {}
    verdicts: dict[Kind, Verdicts] = {}
    for kind, runs in found.stops.items():
        of_all = kind._replace(job_type="")
        stops[of_all] = stops.get(of_all, 0) + runs
    for kind, said in found.verdicts.items():
        of_all = kind._replace(job_type="")
        verdicts[of_all] = verdicts.get(of_all, Verdicts()) + said
    rows = []
    for detector in sorted({kind.detector for kind in {*stops, *verdicts}}):
        enforced, watched = (
            cell_of(kind, stops.get(kind, 0), verdicts.get(kind, Verdicts()), asked)
            for kind in (Kind(detector, "", False), Kind(detector, "", True))
        )
        rows.append(Against(detector, enforced, watched))
    return sorted(rows, key=lambda row: -(row.enforced.stops + row.watched.stops))


def cell_of(kind: Kind, stops: int, verdicts: Verdicts, asked: Asked) -> Cell:
    """Return the cell of a kind; one without a job type is of all of them."""
    job: dict[str, Value] = {"job": kind.job_type} if kind.job_type else {}
    how: dict[str, Value] = {**job, "watched" if kind.watched else "stopped": 1, "judged": kind.detector}
    return Cell(
        stops,
        verdicts,
        asked.runs(**job, **{"would_halt" if kind.watched else "reason": kind.detector}),
        asked.runs(**how),
        asked.runs(**how, review=StopVerdict.FALSE_STOP),
    )


def sampled_of(sample: Sequence[Drawn], seen: Visible, request: PageRequest) -> list[Sampled]:
    slugs = {tenant.pk: tenant.slug for tenant in seen.tenants}
    mine = set(tenants_with_role(request.user, Role.REVIEWER).values_list("pk", flat=True))
    rows = []
    for drawn in sample:
        run, slug = drawn.run, slugs.get(drawn.run.tenant_id, "")
        query = urlencode({"tenant": slug})
        rows.append(
            Sampled(
                drawn,
                slug if len(seen.tenants) > 1 else "",
                f"{reverse('runs:detail', args=[run.run_id])}?{query}",
                f"{reverse('runs:review', args=[run.run_id])}?{query}" if run.tenant_id in mine else "",
            )
        )
    return rows


def estimate(found: Quality) -> tuple[int, int, int] | None:
    """Return how many stops were false by the sample, at least, at most; None without reviews."""
    said = found.sampled_stops
    if not said.reviewed:
        return None
    low, high = wilson(said.false, said.reviewed)
    return (
        round(said.false / said.reviewed * found.stopped),
        round(low * found.stopped),
        round(high * found.stopped),
    )
