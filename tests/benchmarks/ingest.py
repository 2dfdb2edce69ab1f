"""Ended runs a second through the gate, beside COPY of the same rows: `python -m tests.benchmarks.ingest`.

Starts real gates (one a core) and a real fold on a database of its own, and posts prepared bodies from
``--clients`` connections until ``--events`` are acknowledged. Then it copies the rows that were stored, in
the same batches over one connection, a transaction each, into an ordinary table (surrogate id, jsonb, the
same columns, three btrees beside the key, no checks) and into ours, emptied. So every figure is of one run on
one machine, and the ratios say what the gate costs. ``exact``: the overview's counts (roll-ups + tail) equal
a plain count right after the last acknowledgement, or, where the overview says that its tail is too long to
be added, as soon as it says that it is exact; and the roll-ups equal a recount once fold has caught up.
CPU is that of gates, fold and PostgreSQL, which should serve nobody else meanwhile, without the client's.

With ``--mixed`` it posts, instead, as many events with starts and heartbeats among them (started : heartbeat
: ended = 1 : 3 : 1, the five of a run in different requests), in turns with ended runs alone, and prints the
one rate over the other; ``exact`` then says as well that every run ended and none is left alive.

Targets, pass (stretch): with fold 0.70 (0.90) of COPY into the ordinary table at a batch of 1,000; without
fold 0.50 (0.65) of COPY into ours, 0.28 (0.40) at a batch of 100; 130 (85) us of CPU a run;
mixed 0.6 (0.9) of ended runs alone.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.benchmarks.cpu import cpu_seconds, parent_of, tree_seconds
from tests.benchmarks.own_database import own_database
from tests.benchmarks.streams import Sender, Stream, make_stream, mix
from tests.gate_process import FoldProcess, GateProcess

DATABASE = "guardops_ingest_benchmark"
FOLD_SECONDS = 120.0
WARM_SECONDS = 30
RESTING_SECONDS = 0.05  # of CPU in a second
ORDINARY = """
DROP TABLE IF EXISTS ordinary_run;
CREATE TABLE ordinary_run (LIKE run, id bigserial PRIMARY KEY);
ALTER TABLE ordinary_run ALTER detail TYPE jsonb USING detail::jsonb;
CREATE UNIQUE INDEX ON ordinary_run (tenant_id, run_id);
CREATE INDEX ON ordinary_run (tenant_id, at);
CREATE INDEX ON ordinary_run (tenant_id, root_task_id)"""
COUNTED = """
SELECT count(*), count(*) FILTER (WHERE completes), count(*) FILTER (WHERE halt_reason <> ''),
    count(*) FILTER (WHERE looped), coalesce(sum(cost), 0), coalesce(sum(duplicates), 0)
FROM run WHERE at >= %s AND at < %s"""


@dataclass(frozen=True, slots=True)
class Posted:
    """Seconds from the first byte to the last acknowledgement, CPU seconds by server, whether all adds up."""

    seconds: float
    cpu: dict[str, float]
    exact: bool


class Bench:
    """A database, the senders, and what the rows that they make cost."""

    def __init__(self, url: str, *, events: int, clients: int, tenants: int, gates: int) -> None:
        from django.db import connection

        self.url = url
        self.gates = gates
        self.count = events
        self.until = datetime.now(UTC)
        self.ended = make_stream(events, clients, tenants, self.until)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            self.postgres = parent_of(cursor.fetchone()[0])

    def post(self, batch: int, *, fold: bool, stream: Stream | None = None) -> Posted:
        """Post every event, of runs that ended or of ``stream``, to a fresh gate, beside a fold or none."""
        from runs.rollup.recount import recount

        stream = stream or self.ended
        _empty()
        with ExitStack() as stack:
            gate = stack.enter_context(GateProcess(self.url))
            pids = {"gate": [gate.pid]}
            for _ in range(self.gates - 1):
                pids["gate"].append(stack.enter_context(gate.beside()).pid)
            if fold:
                pids["fold"] = [stack.enter_context(FoldProcess(self.url)).pid]
                _wait(_fold_runs)
            bodies = [list(sender.bodies(batch)) for sender in stream.senders]
            self._warm(gate, pids["gate"])
            before = self._cpu(pids)
            began = time.perf_counter()
            self._send(gate, bodies)
            seconds = time.perf_counter() - began
            exact = self._is_exact(stream.runs) if fold else _stored() == (stream.runs, 0)
            if fold:
                _wait(_all_is_folded)
            after = self._cpu(pids)
            exact = exact and not (fold and recount())
        return Posted(seconds, {name: after[name] - before[name] for name in after}, exact)

    def _warm(self, gate: GateProcess, pids: Sequence[int]) -> None:
        """Return when every gate has started and rests, and those asked have read the keys."""
        for _ in range(WARM_SECONDS):
            before = cpu_seconds(*pids)
            time.sleep(1.0)
            if cpu_seconds(*pids) - before < RESTING_SECONDS:
                break
        for _ in range(5):
            self._send(gate, [[b"[]"] for _ in self.ended.senders])

    def _cpu(self, pids: dict[str, list[int]]) -> dict[str, float]:
        used = {name: cpu_seconds(*found) for name, found in pids.items()}
        return used | {"postgresql": tree_seconds(self.postgres)}

    def _send(self, gate: GateProcess, bodies: Sequence[Sequence[bytes]]) -> None:
        failed: list[str] = []

        def send(sender: Sender, mine: Sequence[bytes]) -> None:
            client = http.client.HTTPConnection(*gate.address)
            headers = {"Authorization": f"Bearer {sender.key}", "Content-Type": "application/json"}
            for body in mine:
                client.request("POST", "/api/v1/events", body, headers)
                response = client.getresponse()
                reply = response.read()
                if response.status != 200 or not _all_new(reply):
                    failed.append(reply[:500].decode())
                    return
            client.close()

        threads = [
            threading.Thread(target=send, args=pair) for pair in zip(self.ended.senders, bodies, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise SystemExit(f"the gate refused: {failed[0]}")

    def _is_exact(self, runs: int) -> bool:
        """Compare the overview's roll-ups and tail with a plain count, right now."""
        from django.db import connection

        from guardops.tenants.models import Tenant
        from runs.reports.metrics import Scope, Window
        from runs.reports.overview import read_overview
        from runs.reports.windows import ceil_quarter, floor_quarter

        window = Window(
            floor_quarter(self.until - timedelta(hours=3)),
            ceil_quarter(self.until + timedelta(hours=1)),
            timedelta(minutes=15),
        )
        scope = Scope(tuple(Tenant.objects.values_list("pk", flat=True)))
        overview = read_overview(scope, window, now=datetime.now(UTC))
        for _ in range(int(FOLD_SECONDS)):
            if overview.as_of.exact:
                break
            time.sleep(1.0)  # the tail is too long to be added: the page says "as of" until fold catches up
            overview = read_overview(scope, window, now=datetime.now(UTC))
        now = overview.tiles.now
        with connection.cursor() as cursor:
            cursor.execute(COUNTED, [window.start, window.end])
            counted = cursor.fetchone()
        shown = (now.runs, now.completed, now.stopped, now.looped, now.cost, now.duplicates)
        return overview.as_of.exact and shown == counted and _stored() == (runs, 0)

    def export(self, batch: int) -> list[bytes]:
        """Return the stored rows as COPY's own batches, detail as json, which jsonb reads as well."""
        from django.db import connection

        from runs.ingest.copy import COLUMNS

        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE TEMP TABLE numbered AS"
                " SELECT run_id, row_number() OVER (ORDER BY run_id) AS n FROM run"
            )
            columns = ", ".join(f"run.{name}" for name in COLUMNS)
            buffers = []
            for start in range(0, self.count, batch):
                with cursor.copy(
                    f"COPY (SELECT {columns} FROM run JOIN numbered USING (run_id)"
                    f" WHERE n > {start} AND n <= {start + batch} ORDER BY n) TO STDOUT"
                ) as stream:
                    buffers.append(b"".join(map(bytes, stream)))
            cursor.execute("DROP TABLE numbered")
        return buffers

    def copy(self, table: str, buffers: Sequence[bytes]) -> float:
        """Return the seconds that copying the batches takes, a transaction each, over one connection."""
        from django.db import connection, transaction

        from runs.ingest.copy import COLUMNS

        _empty()
        with connection.cursor() as cursor:
            if table == "ordinary_run":
                cursor.execute(ORDINARY)
            began = time.perf_counter()
            for buffer in buffers:
                with (
                    transaction.atomic(),
                    cursor.copy(f"COPY {table} ({', '.join(COLUMNS)}) FROM STDIN") as stream,
                ):
                    stream.write(buffer)
            return time.perf_counter() - began


def _all_new(reply: bytes) -> bool:
    """Say whether every event was stored; a recording may hold what is hidden on arrival."""
    return all(result["status"] == "sanitized" for result in json.loads(reply)["results"])


def _empty() -> None:
    from django.db import connection

    from runs import models

    written = (
        *(models.Run, models.RunSource, models.ExternalRun, models.TaskCompletion, models.LiveRun),
        *(models.IngestSpan, models.FoldState, models.Rollup, models.Histogram, models.SourceDay),
    )
    tables = ", ".join(model._meta.db_table for model in written)
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {tables}")


def _stored() -> tuple[int, int]:
    """Return how many runs ended, and how many live."""
    from runs.models import LiveRun, Run

    return Run.objects.count(), LiveRun.objects.count()


def _fold_runs() -> bool:
    from runs.models import FoldState

    return FoldState.objects.exists()


def _all_is_folded() -> bool:
    from runs.models import IngestSpan

    return not IngestSpan.objects.exists()


def _wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + FOLD_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("fold does not get on")
        time.sleep(0.05)


def measure(bench: Bench, batch: int, rounds: int, say: Callable[[str], None]) -> dict[str, object]:
    """Return the medians over the rounds, each of which has every figure."""
    found: dict[str, list[float]] = {}
    exact = True

    def note(name: str, value: float) -> None:
        found.setdefault(name, []).append(value)
        say(f"  {name}: {value:,.2f}")

    def note_cpu(name: str, posted: Posted) -> None:
        note(name, sum(posted.cpu.values()) / bench.count * 1e6)
        for server, seconds in posted.cpu.items():
            note(f"{name}_{server}", seconds / bench.count * 1e6)

    for place in range(rounds):
        say(f"round {place + 1} of {rounds}")
        folded = bench.post(batch, fold=True)
        note("events_per_s", bench.count / folded.seconds)
        note_cpu("cpu_us_per_event", folded)
        buffers = bench.export(batch)
        note("ordinary_copy_rows_per_s", bench.count / bench.copy("ordinary_run", buffers))
        note("own_copy_rows_per_s", bench.count / bench.copy("run", buffers))
        note("ratio_to_ordinary_copy", found["events_per_s"][-1] / found["ordinary_copy_rows_per_s"][-1])
        exact &= folded.exact
        for size in (batch, 100):
            alone = bench.post(size, fold=False)
            exact &= alone.exact
            suffix = "" if size == batch else "_b100"
            note(f"events_per_s_without_fold{suffix}", bench.count / alone.seconds)
            note(f"ratio_to_own_copy{suffix}", bench.count / alone.seconds / found["own_copy_rows_per_s"][-1])
            note_cpu(f"cpu_us_per_event_without_fold{suffix}", alone)
    return {name: round(statistics.median(values), 3) for name, values in found.items()} | {"exact": exact}


def measure_mixed(bench: Bench, batch: int, rounds: int, say: Callable[[str], None]) -> dict[str, object]:
    """Return the median rates of both streams, each round's own beside each other, and of their ratios."""
    mixed = mix(bench.ended)
    found: dict[str, list[float]] = {}
    exact = True
    for place in range(rounds):
        rates = {}
        for name, stream in (("ended", bench.ended), ("mixed", mixed)):
            posted = bench.post(batch, fold=True, stream=stream)
            exact &= posted.exact
            events = sum(len(sender.events) for sender in stream.senders)
            rates[name] = events / posted.seconds
            found.setdefault(f"{name}_events_per_s", []).append(rates[name])
            used = sum(posted.cpu.values()) / events * 1e6
            found.setdefault(f"cpu_us_per_{name}_event", []).append(used)
        found.setdefault("mixed", []).append(rates["mixed"] / rates["ended"])
        say(
            f"mixed, round {place + 1} of {rounds}: {rates['mixed']:,.0f} events/s,"
            f" ended runs alone {rates['ended']:,.0f}, ratio {found['mixed'][-1]:.2f}"
        )
    return {name: round(statistics.median(values), 3) for name, values in found.items()} | {"exact": exact}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--tenants", type=int, default=4)
    parser.add_argument("--gates", type=int, default=os.cpu_count() or 1, help="gate processes; one a core")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="20,000 events, one round")
    parser.add_argument("--mixed", action="store_true", help="starts and heartbeats too, instead of COPY")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    events, rounds = (20_000, 1) if options.quick else (options.events, options.rounds)
    say = (lambda line: None) if options.json else lambda line: print(line, flush=True)
    with own_database(DATABASE) as url:
        say(f"making {events:,} events")
        bench = Bench(
            url, events=events, clients=options.clients, tenants=options.tenants, gates=options.gates
        )
        size = sum(len(event) for sender in bench.ended.senders for event in sender.events) / events
        say(f"{size:,.0f} bytes an event")
        figures = (measure_mixed if options.mixed else measure)(bench, options.batch, rounds, say)
    if options.json:
        print(
            json.dumps(
                {
                    "events": events,
                    "batch": options.batch,
                    "gates": options.gates,
                    "bytes_per_event": round(size),
                }
                | figures
            )
        )
    else:
        for name, value in figures.items():
            print(f"{name:40} {value:>12,}" if not isinstance(value, bool) else f"{name:40} {value!s:>12}")
    sys.exit(0 if figures["exact"] else 1)


if __name__ == "__main__":
    main()
