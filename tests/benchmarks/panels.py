"""Times every panel, and a page of the runs list: `python -m tests.benchmarks.panels --rows 1000000`.

Loads runs of 14 tenants over 35 days by SQL, folding as they come, into a database of its own (on
DATABASE_URL's server, or an embedded one), then reads each panel for all tenants, one, and several, filtered
and not, over every range. A second or so of runs is left unfolded, as on a live installation. Prints the
median and the highest of ``--repeat`` reads after one to warm up, in milliseconds, and beside them a query
that does nothing. Target: every panel below 50 ms at 10 M runs (25 stretched).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.own_database import own_database

if TYPE_CHECKING:
    from runs.reports.metrics import Scope
    from runs.reports.reading import Reading

DAYS = 35
CHUNK = 20_000
LEFT_UNFOLDED = 2_000
RANGES = ("1h", "6h", "24h", "7d", "30d", "90d")
ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu")

LOAD = Path(__file__).with_name("runs.sql").read_text()
SPANS = """\
INSERT INTO ingest_span (mark, tenant_id, min_run_id, max_run_id, runs)
SELECT ingest_mark, tenant_id, min(run_id::text)::uuid, max(run_id::text)::uuid, count(*) FROM run
WHERE ingest_mark = pg_current_xact_id()::text::bigint AND at >= %(start)s
    AND run_id >= %(first)s AND run_id < %(last)s GROUP BY 1, 2"""


def load(rows: int, now: datetime, say: Callable[[str], None]) -> dict[str, float]:
    """Fill the run table in the order of time, folding along; return the seconds it took."""
    from django.db import connection, transaction

    from runs.partitions import ensure_partitions, run_id_bounds
    from runs.rollup.fold import fold_once

    start = now - timedelta(days=DAYS)
    ensure_partitions(now)
    chunks = max(1, (rows - LEFT_UNFOLDED) // CHUNK)
    length = (now - start) / chunks
    seconds = {"load": 0.0, "fold": 0.0}
    slots = [(start + length * place, length, (rows - LEFT_UNFOLDED) // chunks) for place in range(chunks)]
    slots.append((now - timedelta(minutes=1), timedelta(minutes=1), LEFT_UNFOLDED))
    for place, (at, span, count) in enumerate(slots):
        began = time.perf_counter()
        first, last = run_id_bounds(at, at + span)
        with transaction.atomic(), connection.cursor() as cursor:
            given = {"start": at, "length": span, "rows": count, "first": first, "last": last}
            cursor.execute(LOAD, given)
            cursor.execute(SPANS, given)
        loaded = time.perf_counter()
        while place < chunks and fold_once(at + span, rows_a_tick=10 * CHUNK).pending:
            time.sleep(0.01)  # another database's transaction on the server holds fold back
        seconds["load"] += loaded - began
        seconds["fold"] += time.perf_counter() - loaded
        if place % 10 == 0:
            say(f"\r{place / len(slots):4.0%} of {rows:,} runs")
    with connection.cursor() as cursor:
        for table in ("run", "rollup", "histogram", "source_day", "ingest_span"):
            cursor.execute(f"VACUUM ANALYZE {table}")
    say(f"\r{rows:,} runs loaded in {seconds['load']:.0f} s, folded in {seconds['fold']:.0f} s\n")
    return seconds


def scopes() -> Iterator[tuple[str, Scope]]:
    """Yield who is asked for, with each filter: the largest tenant's most frequent job type and release."""
    from django.db import connection

    from runs.reports.metrics import Scope

    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT job_type, release FROM rollup WHERE tenant_id = 1 AND cut = 3 AND grain = 1"
            " GROUP BY 1, 2 ORDER BY sum(runs) DESC LIMIT 1"
        )
        job_type, release = cursor.fetchone()
    for who, tenant_ids in (("all", (0,)), ("one", (1,)), ("five", (1, 2, 3, 5, 8))):
        yield who, Scope(tenant_ids)
        yield f"{who}, job type", Scope(tenant_ids, job_type=job_type)
        yield f"{who}, release", Scope(tenant_ids, release=release)
        yield f"{who}, both", Scope(tenant_ids, job_type=job_type, release=release)


def panels() -> dict[str, Callable[[Reading], object]]:
    from runs.keyset import Sort, read_page
    from runs.models import Run
    from runs.reports.counts import sums_by_bucket
    from runs.reports.facets import any_runs, read_job_types, read_releases
    from runs.reports.halts import read_halts
    from runs.reports.steps import read_steps
    from runs.reports.tiles import make_tiles
    from runs.reports.windows import buckets

    def tiles(reading: Reading) -> object:
        shown, earlier = buckets(reading.window, reading.now), buckets(reading.window.before, reading.now)
        sums = sums_by_bucket(reading, [*earlier, *shown])
        return make_tiles(shown, sums[: len(earlier)], sums[len(earlier) :])

    def halts(reading: Reading) -> object:
        shown, earlier = buckets(reading.window, reading.now), buckets(reading.window.before, reading.now)
        sums = sums_by_bucket(reading, [*earlier, *shown])
        return read_halts(reading, earlier, sums[: len(earlier)], shown, sums[len(earlier) :])

    def runs_list(reading: Reading) -> object:
        scope = reading.scope
        runs = Run.objects.for_tenants(scope.tenant_ids).within(reading.window)
        runs = runs if scope.job_type is None else runs.of_job(scope.job_type)
        runs = runs if scope.release is None else runs.of_release(scope.release)
        return read_page(runs, Sort(), reading.window)

    return {
        "tiles": tiles,
        "halts": halts,
        "steps": lambda reading: read_steps(reading, buckets(reading.window, reading.now), None),
        "filters": lambda reading: (any_runs(reading), read_job_types(reading), read_releases(reading)),
        "runs list": runs_list,
    }


def measure(repeat: int, now: datetime, zones: tuple[str, ...]) -> list[dict[str, Any]]:
    from runs.reports.overview import read_overview
    from runs.reports.reading import open_reading
    from runs.reports.windows import parse_window

    found = []
    for zone in zones:
        for key in RANGES:
            window = parse_window({"range": key}, now, zone)
            for who, scope in scopes():
                for panel, read in panels().items():

                    def once(read: Callable[[Reading], object] = read, scope: Scope = scope) -> None:
                        with open_reading(scope, window, now) as reading:  # noqa: B023
                            read(reading)

                    found.append(
                        timed(once, repeat) | {"panel": panel, "scope": who, "range": key, "zone": zone}
                    )
                whole = timed(lambda scope=scope: read_overview(scope, window, now=now), repeat)  # noqa: B023
                found.append(whole | {"panel": "whole page", "scope": who, "range": key, "zone": zone})
    return found


def timed(read: Callable[[], object], repeat: int) -> dict[str, Any]:
    read()
    taken = []
    for _ in range(repeat):
        began = time.perf_counter()
        read()
        taken.append((time.perf_counter() - began) * 1000)
    return {"median_ms": round(statistics.median(taken), 2), "max_ms": round(max(taken), 2)}


def idle_query(repeat: int) -> float:
    from django.db import connection

    def ask() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")

    return float(timed(ask, repeat)["median_ms"])


def table(found: list[dict[str, Any]], idle_ms: float) -> str:
    lines = [f"{'panel':<12}{'scope':<18}{'median ms':>10}{'highest ms':>11}  slowest at"]
    for panel in dict.fromkeys(row["panel"] for row in found):
        for who in dict.fromkeys(row["scope"] for row in found):
            rows = [row for row in found if row["panel"] == panel and row["scope"] == who]
            worst = max(rows, key=lambda row: row["median_ms"])
            highest = max(row["max_ms"] for row in rows)
            lines.append(
                f"{panel:<12}{who:<18}{worst['median_ms']:>10.1f}{highest:>11.1f}"
                f"  {worst['range']} {worst['zone']}"
            )
    slowest = max((row for row in found if row["panel"] != "whole page"), key=lambda row: row["median_ms"])
    lines.append(
        f"slowest panel: {slowest['panel']} ({slowest['scope']}, {slowest['range']} {slowest['zone']})"
        f" {slowest['median_ms']} ms = {slowest['median_ms'] / idle_ms:.0f} idle queries of {idle_ms} ms"
    )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=9, help="timed reads of each")
    parser.add_argument("--zone", action="append", choices=ZONES, help="only this zone; repeatable")
    parser.add_argument("--keep", action="store_true", help="keep the database, and use one kept before")
    parser.add_argument("--json", action="store_true", help="print every figure as JSON")
    options = parser.parse_args()
    with own_database("guardops_bench_panels", keep=options.keep):
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*), max(at) FROM run")
            loaded, newest = cursor.fetchone()
        now = newest or datetime.now(UTC)
        seconds = {} if loaded else load(options.rows, now, sys.stderr.write)
        idle_ms = idle_query(options.repeat * 10)
        found = measure(options.repeat, now, tuple(options.zone or ZONES))
        connection.close()
    if options.json:
        result = {"rows": loaded or options.rows, "seconds": seconds, "idle_ms": idle_ms, "panels": found}
        print(json.dumps(result, indent=1))
    else:
        print(table(found, idle_ms))


if __name__ == "__main__":
    main()
