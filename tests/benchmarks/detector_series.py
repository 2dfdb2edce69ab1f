"""Simulated loop-rate series with known incidents, of other seeds and ranges than those tuned on.

A task's runs end over some minutes and loop together; the usual rate wobbles from hour to hour; there are
releases good and bad, steps, ramps and bursts, and what must not alarm: outages of a provider, drops and
surges of traffic, and silences after which everything comes late.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

DAY = 1440
QUIET_DAYS = 3
LOUD = ("step2", "step3", "step10", "ramp4", "burst5x6")
CALM = ("outage", "drop", "silence", "surge")
ZERO_RATE = 0.02
"""What a multiple is of where nothing ever loops."""

Rows = dict[int, list[dict[str, Any]]]


@dataclass(slots=True)
class Label:
    kind: str
    start: int
    end: int
    fire: bool
    times: float = 1.0
    release: int | None = None


@dataclass(slots=True)
class Series:
    id: str
    days: int
    volume: float
    base: float
    labels: list[Label] = field(default_factory=list)
    releases: list[tuple[int, int, int, bool]] = field(default_factory=list)  # name, first, roll-out, bad
    rows: Rows = field(default_factory=dict)
    source: str = "simulated"


def simulate(seed: int, *, days: int = 9, volumes: tuple[float, float] = (0.1, 12.0)) -> Series:
    """Return one series; ``volumes`` are the least and the most runs a minute."""
    rng = random.Random(f"loop-rate-{seed}")
    volume = math.exp(rng.uniform(math.log(volumes[0]), math.log(volumes[1])))
    base = 0.0 if rng.random() < 0.08 else math.exp(rng.uniform(math.log(0.002), math.log(0.22)))
    series = Series(f"s{seed}", days, volume, base)
    _plan(series, rng)
    series.rows = _rows(series, rng)
    return series


def _plan(series: Series, rng: random.Random) -> None:
    """Place incidents and releases, after three quiet days, so that loud ones do not touch."""
    last = series.days * DAY
    at, name = rng.randrange(400, 3000), 0
    while at < last - 600:
        name += 1
        roll_out = rng.choice((5, 30, 120, 360, 720))
        bad = at > QUIET_DAYS * DAY and rng.random() < 0.2
        series.releases.append((name, at, roll_out, bad))
        if bad:
            times = rng.choice((2, 3, 5))
            end = min(last, at + roll_out // 2 + rng.randrange(240, 700))
            series.labels.append(Label(f"release{times}", at, end, True, times, name))
        at += rng.randrange(1500, 5000)
    kinds = [kind for kind in LOUD if rng.random() < 0.25] + [kind for kind in CALM if rng.random() < 0.3]
    for kind in kinds:
        length = 5 if kind == "burst5x6" else rng.randrange(30, 400 if kind in LOUD else 300)
        for _ in range(20):
            start = rng.randrange(QUIET_DAYS * DAY, last - length)
            if all(start > label.end + 180 or start + length + 180 < label.start for label in series.labels):
                times = {"step2": 2, "step3": 3, "step10": 10, "ramp4": 4, "burst5x6": 6}.get(kind, 1.0)
                series.labels.append(Label(kind, start, start + length, kind in LOUD, times))
                break


def _rows(series: Series, rng: random.Random) -> Rows:
    wobble, swing, phase = rng.uniform(0.02, 0.3), rng.uniform(0.2, 0.9), rng.uniform(0, 24)
    rate_swing = rng.uniform(0.0, 0.2)
    fan_out, spread = rng.choice((0.05, 0.1, 0.3, 0.6, 0.9)), rng.uniform(2, 15)
    drift = 0.0
    counts: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0] * 8)
    tasks: dict[tuple[int, int], tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    task = 0
    for minute in range(series.days * DAY):
        if minute % 10 == 0:
            drift = 0.97 * drift + wobble * math.sqrt(1 - 0.97**2) * rng.gauss(0, 1)
        hour = math.sin((minute / 60 - phase) / 24 * math.tau)
        expected = series.volume / (1 + fan_out) * (1 + swing * hour) * _volume(series, minute)
        for _ in range(_poisson(rng, expected)):
            task += 1
            release = _release(series, minute, rng)
            rate = min(0.95, _times(series, minute, release) * math.exp(drift + rate_swing * hour))
            loops = rng.betavariate(rate * 0.667, (1 - rate) * 0.667) if rate > 0 else 0.0
            at = float(minute)
            while True:
                _run(series, counts, tasks, (int(at), release, task, loops), rng)
                if rng.random() > fan_out / (1 + fan_out):
                    break
                at += rng.expovariate(1 / spread)
    return _as_rows(counts, tasks, series.days * DAY)


def _run(
    series: Series,
    counts: dict[tuple[int, int], list[int]],
    tasks: dict[tuple[int, int], tuple[set[int], set[int]]],
    run: tuple[int, int, int, float],
    rng: random.Random,
) -> None:
    minute, release, task, loops = run
    received = minute
    outage = 0.002
    for label in series.labels:
        if label.start <= minute < label.end and label.kind == "silence":
            received = label.end + rng.randrange(12)
        if label.start <= minute < label.end and label.kind == "outage":
            outage = 0.75
    cell = counts[received, release]
    failed, looped = rng.random() < outage, rng.random() < loops
    cell[0] += 1
    cell[1] += looped
    cell[2] += failed
    cell[3] += failed and looped
    late = received - minute > 15
    cell[4] += late
    cell[5] += late and looped
    if not failed:
        every, bad = tasks[received, release]
        every.add(task)
        if looped:
            bad.add(task)


def _as_rows(
    counts: dict[tuple[int, int], list[int]],
    tasks: dict[tuple[int, int], tuple[set[int], set[int]]],
    last: int,
) -> Rows:
    rows: Rows = defaultdict(list)
    names = ("n", "k", "provider", "provider_k", "late", "late_k")
    for (minute, release), cell in sorted(counts.items()):
        every, bad = tasks.get((minute, release), (set(), set()))
        if minute < last:
            row = {"release": release, **dict(zip(names, cell, strict=False))}
            rows[minute].append({**row, "tasks": len(every), "looped_tasks": len(bad)})
    return rows


def _volume(series: Series, minute: int) -> float:
    times = {"drop": 0.1, "surge": 4.0}
    for label in series.labels:
        if label.start <= minute < label.end:
            return times.get(label.kind, 1.0)
    return 1.0


def _release(series: Series, minute: int, rng: random.Random) -> int:
    """Return the release of a task that begins now: a roll-out is linear, a bad one is taken back."""
    current = 0
    for name, first, roll_out, bad in series.releases:
        if minute < first:
            break
        gone = bad and any(label.release == name and minute >= label.end for label in series.labels)
        if not gone and rng.random() < (minute - first + 1) / roll_out:
            current = name
    return current


def _times(series: Series, minute: int, release: int) -> float:
    for label in series.labels:
        if not label.fire or not label.start <= minute < label.end:
            continue
        if label.release is not None and label.release != release:
            continue
        usual = series.base or ZERO_RATE
        grown = (minute - label.start) / (label.end - label.start) if label.kind.startswith("ramp") else 1.0
        return usual * (1 + (label.times - 1) * grown)
    return series.base


def _poisson(rng: random.Random, mean: float) -> int:
    count, product, limit = 0, rng.random(), math.exp(-mean)
    while product > limit:
        count += 1
        product *= rng.random()
    return count
