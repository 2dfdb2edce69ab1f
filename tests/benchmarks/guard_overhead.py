"""Print what the guard adds to a tool call: check + observe, in memory and with the default store's file.

Run by hand: ``python -m tests.benchmarks.guard_overhead [--json] [--rounds N]``. Each round is a fresh run of
200 distinct calls, timed by the processor time that it takes; with the file, where both answers of a call are
committed, by the clock as well, since waiting for the disk counts. The median of the rounds is given, and the
fastest, since other work on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from guardops.guard.memory_store import MemoryStore
from guardops.guard.policy import Policy
from guardops.guard.session import Guard, RunGuard
from guardops.guard.sqlite import SqliteStore
from guardops.guard.stores import Store

SIZES = (200, 2_000)
CALLS = 200
TARGET_US = {"pass": 40, "stretch": 15}
TARGET_SQLITE_US = {"pass": 500, "stretch": 200}


def arguments(size: int, number: int) -> dict[str, Any]:
    """Return ordinary arguments of about ``size`` bytes of JSON, another set for every number."""
    args: dict[str, Any] = {
        "query": f"quarterly report {number}",
        "filters": {"region": "emea", "year": 2026, "tags": ["annual", "audited"]},
        "limit": 25,
        "exact": False,
        "note": "",
    }
    args["note"] = "x" * (size - len(json.dumps(args)))
    return args


def measure(size: int, rounds: int, store: Store, clock: Callable[[], int]) -> dict[str, float]:
    """Return the median and the fastest round's microseconds a call; ``clock`` gives nanoseconds."""
    guard = Guard(Policy.from_mapping({"max_steps": CALLS + 1}), store=store)
    calls = [(arguments(size, number), f"result {number}") for number in range(CALLS)]
    taken = []
    for _ in range(rounds):
        run = guard.run(job_type="benchmark")
        started = clock()
        play(run, calls)
        taken.append((clock() - started) / CALLS / 1_000)
        if faults := run.counts.faults:
            raise RuntimeError(f"the guard itself failed: {', '.join(faults)}")
        run.end()
    return {"median_us": round(statistics.median(taken), 2), "fastest_us": round(min(taken), 2)}


def play(run: RunGuard, calls: list[tuple[dict[str, Any], str]]) -> None:
    """Put calls through a run's guard."""
    for args, result in calls:
        ticket = run.check("search", args).ticket
        if ticket is None:
            raise RuntimeError("the benchmark's own calls must be allowed")
        run.observe(ticket, result=result)


def measure_all(rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Return the figures of both stores, by what is timed and by size."""
    with TemporaryDirectory(prefix="guard-overhead-") as folder:
        file = SqliteStore(Path(folder) / "guard.db")
        timed: dict[str, tuple[Store, Callable[[], int]]] = {
            "check_and_observe": (MemoryStore(), time.thread_time_ns),
            "check_and_observe_sqlite": (file, time.perf_counter_ns),
            "check_and_observe_sqlite_processor": (file, time.thread_time_ns),
        }
        found = {
            name: {f"{size}_bytes": measure(size, rounds, store, clock) for size in SIZES}
            for name, (store, clock) in timed.items()
        }
        file.close()
    return found


def main() -> None:
    """Measure both sizes in both stores and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    found = measure_all(options.rounds)
    if options.json:
        print(json.dumps(found | {"target_us": TARGET_US, "target_sqlite_us": TARGET_SQLITE_US}))
        return
    shown = {
        "check_and_observe": "in memory",
        "check_and_observe_sqlite": "with the file, by the clock",
        "check_and_observe_sqlite_processor": "with the file, processor time",
    }
    for name, sizes in found.items():
        for size in SIZES:
            figures = sizes[f"{size}_bytes"]
            median, fastest = figures["median_us"], figures["fastest_us"]
            print(f"{shown[name]}, {size} B arguments: {median:.1f} µs a call (fastest round {fastest:.1f})")
    print(f"target at 200 B in memory: pass {TARGET_US['pass']} µs, stretch {TARGET_US['stretch']} µs")
    target = TARGET_SQLITE_US
    print(f"target at 200 B with the file: pass {target['pass']} µs, stretch {target['stretch']} µs")


if __name__ == "__main__":
    main()
