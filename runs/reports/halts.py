"""Halts: stopped runs by family over time and by reason, beside what is usual."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from runs.choices import Family

from .counts import Sums
from .metrics import Bucket, Halts
from .pieces import FROM_PIECES, parameters
from .reading import Reading

_BY_REASON = f"""\
SELECT u.reason, sum(u.runs)::bigint FROM {FROM_PIECES}
CROSS JOIN LATERAL (
    SELECT reasons, reasons_runs FROM rollup
    WHERE tenant_id = ANY(%(tenant_ids)s) AND cut = %(cut)s AND grain = p.grain
        AND job_type = %(job_type)s AND release = %(release)s AND at >= p.start AND at < p.until OFFSET 0
) AS r CROSS JOIN LATERAL unnest(r.reasons, r.reasons_runs) AS u(reason, runs) GROUP BY 1"""


def read_halts(
    reading: Reading,
    buckets_before: Sequence[Bucket],
    before: Sequence[Sums],
    buckets: Sequence[Bucket],
    now: Sequence[Sums],
) -> Halts:
    over_time = _by_family(now)
    return Halts(
        buckets=tuple(buckets),
        families=over_time,
        totals={name: sum(counts) for name, counts in over_time.items()},
        before={name: sum(counts) for name, counts in _by_family(before).items()},
        reasons=stopped_by_reason(reading),
        baseline=trailing_baseline([*buckets_before, *buckets], [*before, *now], len(buckets)),
    )


def _by_family(sums: Sequence[Sums]) -> dict[str, tuple[int, ...]]:
    return {family.value: tuple(int(part[f"halts_{family.value}"]) for part in sums) for family in Family}


def trailing_baseline(
    buckets: Sequence[Bucket], sums: Sequence[Sums], shown: int
) -> tuple[float | None, ...]:
    """Return how many halts are usual in each of the last ``shown`` buckets.

    Usual is the rate of halts over the ``shown`` buckets before it, times its own length: parts of a bucket
    at a window's edges, and days of 23 or 25 hours, count for what they are. None where nothing ran before.
    """
    ran = list(accumulate((int(part["runs"]) for part in sums), initial=0))
    stopped = list(accumulate((int(part["stopped"]) for part in sums), initial=0))
    usual: list[float | None] = []
    for place in range(len(buckets) - shown, len(buckets)):
        since = max(0, place - shown)
        if ran[place] == ran[since]:
            usual.append(None)
            continue
        length = buckets[place].start - buckets[since].start
        share = (buckets[place].end - buckets[place].start) / length
        usual.append((stopped[place] - stopped[since]) * share)
    return tuple(usual)


def stopped_by_reason(reading: Reading) -> dict[str, int]:
    """Return stopped runs of the window by reason, most first."""
    window, scope = reading.window, reading.scope
    found: dict[str, int] = {}
    pieces = reading.pieces(window.start, window.end)
    if pieces:
        reading.cursor.execute(
            _BY_REASON, parameters(pieces) | reading.cut(job_type=scope.job_type, release=scope.release)
        )
        found.update(reading.cursor.fetchall())
    for cell in reading.in_scope(reading.tail.counts):
        if cell["reason"] and window.start <= cell["at"] < window.end:
            found[cell["reason"]] = found.get(cell["reason"], 0) + cell["stopped"]
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
