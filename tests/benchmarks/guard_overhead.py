"""Print what the guard adds to a tool call: check + observe in memory, in microseconds.

Run by hand: ``python -m tests.benchmarks.guard_overhead [--json] [--rounds N]``. Each round is a fresh run of
200 distinct calls, timed by the processor time that it takes; the median of the rounds is given, and the
fastest, since other work on the machine only adds to it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

from guardops.guard.policy import Policy
from guardops.guard.session import Guard

SIZES = (200, 2_000)
CALLS = 200
TARGET_US = {"pass": 40, "stretch": 15}


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


def measure(size: int, rounds: int) -> dict[str, float]:
    """Return the median and the fastest round's microseconds a call."""
    guard = Guard(Policy.from_mapping({"max_steps": CALLS + 1}))
    calls = [(arguments(size, number), f"result {number}") for number in range(CALLS)]
    taken = []
    for _ in range(rounds):
        run = guard.run(job_type="benchmark")
        started = time.thread_time_ns()
        for args, result in calls:
            ticket = run.check("search", args).ticket
            if ticket is None:
                raise RuntimeError("the benchmark's own calls must be allowed")
            run.observe(ticket, result=result)
        taken.append((time.thread_time_ns() - started) / CALLS / 1_000)
    return {"median_us": round(statistics.median(taken), 2), "fastest_us": round(min(taken), 2)}


def main() -> None:
    """Measure both sizes and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    found = {size: measure(size, options.rounds) for size in SIZES}
    if options.json:
        print(
            json.dumps(
                {
                    "check_and_observe": {f"{size}_bytes": found[size] for size in SIZES},
                    "target_us": TARGET_US,
                }
            )
        )
        return
    for size, figures in found.items():
        median, fastest = figures["median_us"], figures["fastest_us"]
        print(f"{size:>5} B arguments: {median:.1f} µs a call (fastest round {fastest:.1f})")
    print(f"target at 200 B: pass {TARGET_US['pass']} µs, stretch {TARGET_US['stretch']} µs")


if __name__ == "__main__":
    main()
