"""How many runs a list holds: from the roll-ups where they know, else counted one by one, up to a bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from guardops.guard.reasons import FAMILY_OF, Family, canonical
from runs.filters import is_given
from runs.querysets import COST_PARTS
from runs.reports.counts import sums_by_bucket
from runs.reports.halts import stopped_by_reason
from runs.reports.metrics import Bucket
from runs.reports.steps import read_rows

if TYPE_CHECKING:
    from runs.filters import RunFilter
    from runs.keyset import Page
    from runs.reports.reading import Reading

COUNTED_UP_TO = 10_000
COUNTING_MS = 1_000

# Filters that the roll-ups' own key holds, or that say how a list is shown.
_IN_SCOPE = frozenset({"range", "from", "to", "tenant", "job", "release", "sort", "size", "after", "before"})
_SUMS: dict[str, str] = {
    "stopped": "stopped",
    "looped": "looped",
    "provider_failure": "provider_failures",
    "forced": "forced",
    "blocked": "blocked",
    "completes": "completed",
    "eligible": "eligible",
}
"""Filters that alone list what one sum of a roll-up counts."""


@dataclass(frozen=True, slots=True)
class Total:
    """A number of runs: exact, or the one at which counting stopped."""

    number: int
    exact: bool = True


def count_runs(reading: Reading, chosen: RunFilter, page: Page, *, all_kept: bool) -> Total:
    """Return how many runs match; ``page`` is one of their pages, and all of them where it stands alone.

    Roll-ups know only while the window's runs are ``all_kept``: they go on counting those that are deleted.
    """
    if page.next is None and page.previous is None:
        return Total(len(page.runs))
    if all_kept and reading.as_of.exact:
        known = _rolled_up(reading, chosen.form.cleaned_data)
        if known is not None:
            return Total(known)
    return _counted(chosen, at_least=len(page.runs))


def _rolled_up(reading: Reading, cleaned: Mapping[str, Any]) -> int | None:
    """Return the roll-ups' number of these filters, None where they keep none."""
    given = {name: value for name, value in cleaned.items() if is_given(value) and name not in _IN_SCOPE}
    if given.keys() & {"family", "reason"}:
        given.pop("stopped", None)
    read = _READERS.get(frozenset(given))
    if read is not None:
        return read(reading, given)
    if not given:
        return _sum(reading, "runs")
    (name, *more) = given
    return None if more or name not in _SUMS else _sum(reading, _SUMS[name])


def _sum(reading: Reading, name: str) -> int:
    window = reading.window
    return int(sums_by_bucket(reading, [Bucket(window.start, window.end)])[0][name])


def _of_outcomes(reading: Reading, given: Mapping[str, Any]) -> int | None:
    outcomes = set(given["outcome"])
    if outcomes == set(COST_PARTS["halted"]):
        return _sum(reading, "halted")
    return _sum(reading, "forced") if outcomes == {"completed_forced"} else None


def _of_cost_part(reading: Reading, given: Mapping[str, Any]) -> int | None:
    return _sum(reading, "halted") if given["cost"] == "halted" else None


def _of_family(reading: Reading, given: Mapping[str, Any]) -> int:
    return _sum(reading, f"halts_{given['family']}")


def _of_reason(reading: Reading, given: Mapping[str, Any]) -> int | None:
    code = canonical(given["reason"])
    if code not in FAMILY_OF and code != Family.OTHER:
        return None
    return stopped_by_reason(reading).get(code, 0)


def _of_steps(reading: Reading, given: Mapping[str, Any]) -> int | None:
    if reading.scope.job_type is None:
        return None
    for row in read_rows(reading):
        if row.unit == given["step_unit"]:
            return row.near_cap if "near_cap" in given else row.tasks
    return 0


_READERS: dict[frozenset[str], Callable[[Reading, Mapping[str, Any]], int | None]] = {
    frozenset({"outcome"}): _of_outcomes,
    frozenset({"cost"}): _of_cost_part,
    frozenset({"family"}): _of_family,
    frozenset({"reason"}): _of_reason,
    frozenset({"completes", "answered", "step_unit"}): _of_steps,
    frozenset({"completes", "answered", "step_unit", "near_cap"}): _of_steps,
}


def _counted(chosen: RunFilter, *, at_least: int) -> Total:
    """Count up to the bound, for a second at most: rare runs in a long range are few among very many."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(COUNTING_MS)])
            counted = chosen.qs.values("tenant_id")[: COUNTED_UP_TO + 1].count()
    except OperationalError as error:
        if not isinstance(error.__cause__, QueryCanceled):
            raise
        return Total(at_least, exact=False)
    return Total(min(counted, COUNTED_UP_TO), exact=counted <= COUNTED_UP_TO)
