"""The replay beside the policy editor: which past runs the caps typed would stop, and which no longer."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import OperationalError
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from psycopg.errors import QueryCanceled

from guardops.htmx import wants_fragment
from guardops.shown import count, money
from guardops.tenants.models import Tenant
from policies.limits import BUILT_IN, LIMITS
from policies.pages.places import place_query
from runs.advisor.caps import CAPS, Amount
from runs.advisor.counting import Stratum
from runs.advisor.replay import PRICED, CapChange, CapTally, Fate, fate_of, saved_on
from runs.advisor.replaying import MOST_LISTED, Replaying, fingerprint_of, from_token, to_token
from runs.advisor.strata import strata_of
from runs.models import Run
from runs.reports.pages import PageRequest
from runs.reports.windows import QUARTER, floor_quarter

from .draft_caps import DraftCaps, read_draft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from django.http import QueryDict

DAYS = (7, 30)
SHOWN = 10
"""Listed runs that are seen at once; the others of the list unfold."""


@dataclass(frozen=True, slots=True)
class CapRow:
    """What one changed cap does; ``saved`` is None where a run's row doesn't say."""

    label: str
    before: str
    after: str
    tally: CapTally
    saved: Decimal | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """A listed run: what becomes of it, by which cap, what it counted, and what that saves."""

    run: Run
    tenant: str
    fate: Fate
    label: str
    stops_at: str
    counted: str
    saved: Decimal | None


@require_safe
@vary_on_headers("HX-Request")
def policy_replay(request: PageRequest) -> HttpResponse:
    now, fragment = timezone.now(), wants_fragment(request)
    draft, days = read_draft(request.user, request.GET, now), _days(request.GET)
    context = _about(draft, days, now)
    if context["state"] == "replay":
        strata = strata_of(draft.place, draft.tenant_ids, draft.draft, now)
        try:
            context |= _replayed(request, draft, strata, days, now)
        except OperationalError as error:
            if not isinstance(error.__cause__, QueryCanceled):
                raise
            context["state"] = "slow"
    # htmx shows no page that is an error: the words for it are the fragment.
    status = 503 if context["state"] == "slow" and not fragment else 200
    template = "runs/_policy_replay.html" if fragment else "runs/policy_replay.html"
    return render(request, template, context, status=status)


def _days(params: QueryDict) -> int:
    return DAYS[1] if params.get("days") == str(DAYS[1]) else DAYS[0]


def _about(draft: DraftCaps, days: int, now: datetime) -> dict[str, Any]:
    url = f"{reverse('runs:policy-replay')}?{draft.query}"
    if not draft.tenant_ids:
        state = "nobody"
    elif draft.problems:
        state = "invalid"
    else:
        state = "replay" if draft.given else "untyped"
    return {
        "asked": draft,
        "place": draft.place,
        "query": place_query(draft.place),
        "edit": draft.edit_with(),
        "state": state,
        "days": days,
        "ranges": [(f"{one} d", f"{url}&days={one}", one == days) for one in DAYS],
        "as_of": now,
        "unanswered": _unanswered(draft),
    }


def _unanswered(draft: DraftCaps) -> list[str]:
    """Return the changed limits that no run's row can answer."""
    return [
        limit.label
        for name, limit in LIMITS.items()
        if name not in CAPS and draft.limit_in_force(name) != draft.limit_typed(name)
    ]


def _replayed(
    request: PageRequest, draft: DraftCaps, strata: Sequence[Stratum], days: int, now: datetime
) -> dict[str, Any]:
    """Count on from where the address says, and return what the page shows of it."""
    if not strata:
        return {"state": "unchanged"}
    fingerprint = fingerprint_of(request.user.pk, strata, days)
    replaying = from_token(request.GET.get("from", ""), fingerprint)
    if replaying is None:
        replaying = Replaying(floor_quarter(now) + QUARTER, days)
    replaying.go_on(strata, time.monotonic)
    changes = [change for stratum in strata for change in stratum.changes]
    found = {
        "replaying": replaying,
        "tally": replaying.tally,
        "caps": _cap_rows(draft, strata, replaying),
        "links": _links(draft, strata, replaying),
        "priced": any(change.tightens and change.cap.name in PRICED for change in changes),
        "tightens": any(change.tightens for change in changes),
        "loosens": not all(change.tightens for change in changes),
        "false_share": replaying.tally.false_stops / (replaying.tally.completed or 1),
    }
    if not replaying.finished:
        token = to_token(replaying, fingerprint)
        url = f"{reverse('runs:policy-replay')}?{draft.query}&days={days}&from={token}"
        return found | {"state": "counting", "next": url}
    runs = _run_rows(strata, replaying)
    shown, more = runs[:SHOWN], runs[SHOWN:]
    return found | {"state": "counted", "runs": shown, "more_runs": more, "unlisted": _unlisted(replaying)}


def _cap_rows(draft: DraftCaps, strata: Sequence[Stratum], replaying: Replaying) -> list[CapRow]:
    changed = {change.cap.name for stratum in strata for change in stratum.changes}
    rows = []
    for name in CAPS:
        if name in changed:
            tally = replaying.tally.caps.get(name, CapTally())
            tightens = any(c.tightens for s in strata for c in s.changes if c.cap.name == name)
            saved = tally.saved if name in PRICED and tightens else None
            before, after = (_value(name, value) for value in _both(draft, name))
            rows.append(CapRow(LIMITS[name].label, before, after, tally, saved))
    return rows


def _both(draft: DraftCaps, name: str) -> tuple[Any, Any]:
    """Return a limit in force and as typed; None where the mode doesn't hold runs to it."""

    def held(document: Any) -> Any:
        enforced = CAPS[name].always or document.get("mode", "enforce") == "enforce"
        return document.get("limits", {}).get(name, BUILT_IN[name]) if enforced else None

    return held(draft.in_force), held(draft.merged)


def _value(name: str, value: Any) -> str:
    if value is None:
        return "not enforced"
    return f"${value}" if name == "max_cost" else f"{value:,}"


def _links(draft: DraftCaps, strata: Sequence[Stratum], replaying: Replaying) -> dict[str, str]:
    """Return links to exactly the runs counted, for the counts that filters of the list can say."""
    if draft.links is None or len(strata) != 1 or len(strata[0].tenant_ids) != len(draft.tenant_ids):
        return {}
    of_the_place = (draft.place.job_type,) if draft.place.job_type else ()
    if strata[0].job_types != of_the_place:  # of all but these, or of some among others
        return {}
    whole = (replaying.start, replaying.end)
    found = {
        "runs": draft.links.runs(*whole),
        "completed": draft.links.runs(*whole, outcome="completed"),
    }
    tighter = [change for change in strata[0].changes if change.tightens]
    if len(tighter) == 1 and tighter[0].cap.name == "max_steps":
        low, high = _steps_between(tighter[0])
        found["false_stops"] = draft.links.runs(
            *whole, outcome="completed", step_unit="tool_call", steps_min=low, steps_max=high
        )
    return found


def _steps_between(change: CapChange) -> tuple[int, int]:
    assert change.before is not None  # a budget is enforced in every mode
    assert change.after is not None
    return int(change.cap.meets_from(change.after)), int(change.cap.meets_from(change.before)) - 1


def _run_rows(strata: Sequence[Stratum], replaying: Replaying) -> list[RunRow]:
    """Return the listed runs in their order; one that retention has taken meanwhile is left out."""
    by_tenant: dict[int, list[Any]] = {}
    for listed in replaying.listed:
        by_tenant.setdefault(listed.tenant_id, []).append(listed.run_id)
    runs = {
        (run.tenant_id, run.run_id): run
        for tenant_id, ids in by_tenant.items()
        for run in Run.objects.for_tenants([tenant_id]).filter(run_id__in=ids).without_detail()
    }
    slugs = _slugs(by_tenant)
    rows = []
    for listed in replaying.listed:
        run = runs.get((listed.tenant_id, listed.run_id))
        stratum = next((s for s in strata if run and s.holds(run.tenant_id, run.job_type)), None)
        if run and stratum and (row := _run_row(run, slugs[run.tenant_id], stratum)):
            rows.append(row)
    return rows


def _slugs(tenant_ids: Any) -> dict[int, str]:
    return dict(Tenant.objects.filter(pk__in=list(tenant_ids)).values_list("pk", "slug"))


def _run_row(run: Run, tenant: str, stratum: Stratum) -> RunRow | None:
    fate, changes = fate_of(run, stratum.changes)
    if fate is None:
        return None
    change = changes[0]
    priced = fate is not Fate.NO_LONGER and any(one.cap.name in PRICED for one in changes)
    at = change.before if fate is Fate.NO_LONGER else change.after
    assert at is not None
    return RunRow(
        run=run,
        tenant=tenant,
        fate=fate,
        label=LIMITS[change.cap.name].label,
        stops_at=_amount(change, at),
        counted=_amount(change, change.cap.count(run)),
        saved=saved_on(run, stratum.changes) if priced else None,
    )


def _amount(change: CapChange, amount: Amount) -> str:
    match change.cap.name:
        case "max_cost":
            return money(Decimal(amount))
        case "max_seconds":
            return f"{amount / 1_000:,.0f} s"
    return count(int(amount))


def _unlisted(replaying: Replaying) -> int:
    """Return how many runs that are newly stopped, or no longer, found no room in the list."""
    return replaying.tally.stopped + replaying.tally.no_longer - min(len(replaying.listed), MOST_LISTED)
