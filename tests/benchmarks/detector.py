"""Print what the loop-rate detector finds, misses and cries wolf about, on labelled and on simulated series.

Run by hand: ``python -m tests.benchmarks.detector [--simulated N] [--seed S] [--json] [--series PATH]``.
The labelled series are those of the folder ``shared``; the simulated ones (`detector_series`) have other
seeds and ranges, so that a gain on the first which is none on the second shows as what it is.

An *oracle* that knows the usual rate, the rate of the incident, its start and how much blocks vary sums up
the same evidence; what it does not see within the incident is not detectable. Delays are ratios to its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

from runs.alerts.baseline import LoopRateDetector
from tests.benchmarks.detector_series import Label, Series, simulate
from tests.plugin import SHARED

LABELLED = SHARED / "alerts" / "dev_series.jsonl.gz"
SLACK = 30
"""Minutes after an incident in which an alert is still one of it."""
LEAST_RATE = 0.002
EVIDENCE = 12.0
COLUMNS = ("n", "k", "provider", "provider_k", "late", "late_k", "tasks", "looped_tasks")
TARGETS = {
    "false incidents a 100 series-weeks": (2.0, 1.0),
    "false verdicts a 100 good releases": (0.5, 0.2),
    "found of detectable steps": (0.70, 0.80),
    "found of detectable releases": (0.70, 0.85),
    "delay against the oracle, median": (2.2, 1.3),
    "extra notifications an incident": (0.05, 0.0),
    "false in outage, drop, silence, surge": (0, 0),
}


@dataclass(slots=True)
class Tally:
    """What was counted over all series."""

    counts: Counter[str] = field(default_factory=Counter)
    weeks: float = 0.0
    delays: list[float] = field(default_factory=list)
    seconds: float = 0.0
    ticks: int = 0


def labelled(path: Path = LABELLED) -> Iterator[Series]:
    """Read series of the file's form: a JSON object a line, minutes as differences, trailing zeros cut."""
    with gzip.open(path, "rt") as lines:
        for line in lines:
            read = json.loads(line)
            series = Series(str(read["id"]), read["days"], read["volume_per_min"], read["base_rate"])
            series.source = read["source"]
            releases = {each["first_minute"]: each["release"] for each in read["releases"] if each["bad"]}
            series.labels = [
                Label(
                    each["kind"],
                    each["start"],
                    each["end"],
                    each["fire"],
                    each["mult"] or 1.0,
                    releases.get(each["start"]),
                )
                for each in read["labels"]
            ]
            series.releases = [
                (each["release"], each["first_minute"], each["rollout_minutes"], each["bad"])
                for each in read["releases"]
            ]
            minute = 0
            for gap, release, *values in read["rows"]:
                minute += gap
                values += [0] * (len(COLUMNS) - len(values))
                row = {"release": release, **dict(zip(COLUMNS, values, strict=True))}
                series.rows.setdefault(minute, []).append(row)
            yield series


def run(series: Series, tally: Tally) -> list[dict[str, Any]]:
    """Give a series to a fresh detector, minute by minute, and return what it said."""
    detector, events = LoopRateDetector(), []
    started = time.process_time()
    for minute in range(series.days * 1_440):
        events += detector.tick(minute, series.rows.get(minute, ()))
    tally.seconds += time.process_time() - started
    tally.ticks += series.days * 1_440
    return events


def judge(series: Series, events: list[dict[str, Any]], tally: Tally) -> None:
    """Count what was found and what was not, and what was said without need."""
    counts, loud = tally.counts, [label for label in series.labels if label.fire]
    tally.weeks += series.days / 7
    counts["good releases"] += sum(not bad for *_, bad in series.releases)
    said = [event for event in events if event["type"] != "resolve"]
    for label in loud:
        _judge_label(series, label, [event for event in said if _is_in(event, label)], tally)
    for event in said:
        if event["type"] == "open" and not any(_is_in(event, label) for label in loud):
            calm = [label for label in series.labels if not label.fire and label.kind != "realgood"]
            counts["false"] += 1
            counts["false in calm"] += any(_is_in(event, label) for label in calm)
            counts["false on recorded"] += series.source == "agentdojo"
        if event["rule"] == "release" and event["type"] in ("open", "attribute"):
            bad = {str(name) for name, _, _, is_bad in series.releases if is_bad}
            counts["false verdicts"] += event["release"] not in bad


def _judge_label(series: Series, label: Label, hits: list[dict[str, Any]], tally: Tally) -> None:
    counts, kind = tally.counts, "step" if label.release is None else "release"
    counts["labelled"] += 1
    counts["alerted"] += bool(hits)
    if series.source == "agentdojo":
        counts["recorded"] += 1
        counts["recorded alerted"] += bool(hits)
    opened = sum(event["type"] == "open" for event in hits)
    counts["incidents"] += bool(opened)
    counts["extra"] += max(0, opened - 1)
    at = oracle(series, label)
    if at is None:
        return
    counts[f"detectable {kind}"] += 1
    counts[f"found {kind}"] += bool(hits)
    if hits:
        tally.delays.append((hits[0]["at"] - label.start + 1) / (at - label.start + 1))


def oracle(series: Series, label: Label) -> int | None:
    """Return the minute at which one who knows everything sees the incident; None where even they do not."""
    loud = [each for each in series.labels if each.fire]
    quiet = {
        minute: _sum(rows, None)
        for minute, rows in series.rows.items()
        if not any(each.start <= minute < each.end + SLACK for each in loud)
    }
    tasks, looped = _added(quiet.values())
    usual = max(looped / tasks if tasks else 0.0, LEAST_RATE)
    during = [(m, _sum(series.rows.get(m, ()), label.release)) for m in range(label.start, label.end)]
    here, bad = _added(cell for _, cell in during)
    if not here or bad / here <= 1.2 * usual:
        return None
    rate, spread = min(bad / here, 0.97), _dispersion(quiet, usual)
    evidence, seen = 0.0, 0
    for minute, (now, now_bad) in during:
        gain = now_bad * log(rate / usual) + (now - now_bad) * log((1 - rate) / (1 - usual))
        evidence, seen = evidence + gain / spread, seen + now_bad
        if evidence >= EVIDENCE and seen >= 5:
            return minute
    return None


def _dispersion(minutes: dict[int, tuple[int, int]], usual: float) -> float:
    blocks: dict[int, list[int]] = {}
    for minute, (tasks, looped) in minutes.items():
        block = blocks.setdefault(minute // 10, [0, 0])
        block[0] += tasks
        block[1] += looped
    squares = sum((looped - tasks * usual) ** 2 for tasks, looped in blocks.values())
    expected = sum(tasks * usual * (1 - usual) for tasks, _ in blocks.values())
    return max(1.0, (squares + 20) / (expected + 10))


def _sum(rows: Iterable[dict[str, Any]], release: int | None) -> tuple[int, int]:
    of = [row for row in rows if release is None or row["release"] == release]
    return sum(row["tasks"] for row in of), sum(row["looped_tasks"] for row in of)


def _added(cells: Iterable[tuple[int, int]]) -> tuple[int, int]:
    tasks = looped = 0
    for here, bad in cells:
        tasks, looped = tasks + here, looped + bad
    return tasks, looped


def _is_in(event: dict[str, Any], label: Label) -> bool:
    return bool(label.start <= event["at"] < label.end + SLACK)


def figures(tally: Tally) -> dict[str, Any]:
    """Return the figures of the table of goals, and what they were counted from."""
    counts = tally.counts

    def share(part: str, whole: str) -> float | None:
        return round(counts[part] / counts[whole], 3) if counts[whole] else None

    return {
        "false incidents a 100 series-weeks": round(counts["false"] / tally.weeks * 100, 2),
        "false verdicts a 100 good releases": round(
            100 * counts["false verdicts"] / max(1, counts["good releases"]), 2
        ),
        "found of detectable steps": share("found step", "detectable step"),
        "found of detectable releases": share("found release", "detectable release"),
        "delay against the oracle, median": round(statistics.median(tally.delays), 2)
        if tally.delays
        else None,
        "extra notifications an incident": share("extra", "incidents"),
        "false in outage, drop, silence, surge": counts["false in calm"],
        "labelled incidents alerted": f"{counts['alerted']} of {counts['labelled']}",
        "recorded releases alerted": f"{counts['recorded alerted']} of {counts['recorded']}",
        "false on recorded releases": counts["false on recorded"],
        "series-weeks": round(tally.weeks, 1),
        "microseconds a tick": round(tally.seconds / max(1, tally.ticks) * 1e6, 1),
    }


def measure(series: Iterable[Series]) -> dict[str, Any]:
    tally = Tally()
    for each in series:
        judge(each, run(each, tally), tally)
    return figures(tally)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulated", type=int, default=120, help="how many series to simulate")
    parser.add_argument("--seed", type=int, default=1_000)
    parser.add_argument("--series", type=Path, default=LABELLED)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {}
    if options.series.exists():
        results["labelled"] = measure(labelled(options.series))
    if options.simulated > 0:
        seeds = range(options.seed, options.seed + options.simulated)
        results["simulated"] = measure(simulate(seed) for seed in seeds)
    if options.json:
        print(json.dumps(results))
        return
    for name, found in results.items():
        print(f"\n{name}")
        for what, value in found.items():
            goal = TARGETS.get(what)
            print(f"  {what:42} {value!s:>12}" + (f"   pass {goal[0]}, stretch {goal[1]}" if goal else ""))


if __name__ == "__main__":
    main()
