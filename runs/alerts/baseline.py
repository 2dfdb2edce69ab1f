"""The loop-rate detector: minute by minute, whether more of a series' tasks loop than is usual.

Pure: no Django, no clock. A series is a tenant's job type. Its minutes come in order, with what was received
in each by release; a minute that was judged already changes nothing, one that was missed comes late and
before the next. Out come events: that a spike or a bad release opened, reopened or is over, and that one
belongs to the other's incident.

A spike is a cumulative sum of the logarithm of a likelihood ratio, the usual rate against a higher one, for
three higher ones at a time, since what tells 2 × from the usual is slow to see 10 ×. The unit is the task:
the runs of one loop together, and what is left of that is divided out (`Baseline.dispersion`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import log
from typing import Any

from .comparing import SLOT, compare
from .usual import BLOCK, DAY, HOUR, KEPT_DAYS, Baseline, History, LeftOut

THRESHOLD = 14.0
"""Of evidence that a spike takes; three sums at a time reach any height by chance sooner than one."""
FEWEST_LOOPED = 5
ODDS = (2.0, 4.0, 10.0)
"""The higher rates that are looked for, as ratios of odds."""
POINTS = 0.02
"""They are at least so much above the usual."""
QUIET = DAY
TASKS_NEEDED = 60
OVER = 4.0
OVER_AFTER = 10
NO_RUNS = 6 * HOUR
NEW_NORMAL = 3 * DAY
REOPENS = 30
NEW_RELEASE = 2 * DAY
GONE = 60
MOST_RELEASES = 200
MOST_WATCHED = 20

Row = Mapping[str, Any]
Event = dict[str, Any]


@dataclass(slots=True)
class Sum:
    """A cumulative sum: its value, the minute since which it has been above zero, and tasks since then."""

    value: float = 0.0
    start: int = 0
    tasks: int = 0
    looped: int = 0


@dataclass(slots=True)
class Alarm:
    """An open incident. ``over`` adds up evidence that the rate is as it was before: ``back`` per task."""

    id: int
    at: int
    started: int
    back: tuple[float, float]  # of a looped task, of another one
    last: int  # the last minute with runs
    over: float = 0.0
    others: int = 0  # tasks of other releases since ``last``
    guest: bool = False  # it has no incident of its own: it is part of a release's


@dataclass(slots=True)
class Watched:
    """A release, by when it came; ``slots`` are what it and others did while it is new."""

    first: int
    last: int
    judged: bool = False
    slots: list[list[int]] = field(default_factory=list)


class LoopRateDetector:
    """Judges one series. What it needs to go on elsewhere is ``state`` and its ``history``.

    ``threshold`` is how much evidence a spike takes. Without ``verdicts`` no release is found bad: what it
    does counts for the spike like all else.
    """

    def __init__(
        self, state: Mapping[str, Any] | None = None, *, threshold: float = THRESHOLD, verdicts: bool = True
    ) -> None:
        kept = dict(state or {})
        self.threshold, self.verdicts = threshold, verdicts
        self.history = History()
        self.last: int = kept.get("last", -1)
        self.first: int | None = kept.get("first")
        self.seen: int = kept.get("seen", 0)
        self.hour: int = kept.get("hour", -1)
        self.usual = _read_usual(kept.get("usual"))
        self.usual_before = _read_usual(kept.get("usual_before"))
        """As if no release that is still watched had run."""
        self.sums = [Sum(*values) for values in kept.get("sums", ())] or [Sum() for _ in ODDS]
        self.spike = _read_alarm(kept.get("spike"))
        self.releases = {name: _read_alarm(alarm) for name, alarm in kept.get("releases", {}).items()}
        self.watched = {name: Watched(*values) for name, values in kept.get("watched", {}).items()}
        self.left_out: list[LeftOut] = [tuple(each) for each in kept.get("left_out", ())]
        self.closed: tuple[int, int] | None = tuple(kept["closed"]) if kept.get("closed") else None
        self.ids: int = kept.get("ids", 0)

    @classmethod
    def after(cls, history: History, minute: int, **options: Any) -> LoopRateDetector:
        """Return the detector of a series that has a past which nobody judged: what ran then is known."""
        detector = cls(**options)
        detector.history = history
        spans: dict[str, tuple[int, int]] = {}
        for block in sorted(history.blocks):
            for release in history.blocks[block]:
                spans[release] = (spans.get(release, (block * BLOCK, 0))[0], block * BLOCK)
        if not spans:
            return detector
        detector.last = minute - 1
        detector.first = min(first for first, _ in spans.values())
        detector.seen = history.tasks_since(detector.first)
        for release, (first, last) in sorted(spans.items(), key=lambda item: item[1][1])[-MOST_RELEASES:]:
            new = first - detector.first >= QUIET and minute - first < NEW_RELEASE
            detector.watched[release] = Watched(first, last, judged=not new)
        return detector

    def state(self) -> dict[str, Any]:
        """Return what ``__init__`` takes, as JSON values."""
        return {
            "last": self.last,
            "first": self.first,
            "seen": self.seen,
            "hour": self.hour,
            "usual": asdict(self.usual) if self.usual else None,
            "usual_before": asdict(self.usual_before) if self.usual_before else None,
            "sums": [[each.value, each.start, each.tasks, each.looped] for each in self.sums],
            "spike": asdict(self.spike) if self.spike else None,
            "releases": {name: asdict(alarm) for name, alarm in self.releases.items() if alarm},
            "watched": {
                name: [each.first, each.last, each.judged, each.slots] for name, each in self.watched.items()
            },
            "left_out": [list(each) for each in self.left_out],
            "closed": self.closed,
            "ids": self.ids,
        }

    @property
    def is_open(self) -> bool:
        """Whether time alone may end something: the series is asked even in minutes without runs."""
        return self.spike is not None or bool(self.releases)

    @property
    def evidence(self) -> float:
        """How near a spike is, by the sum that is furthest."""
        return max(each.value for each in self.sums)

    def needs_history(self, minute: int) -> bool:
        """Say whether the minute begins an hour, for which ``history`` is read."""
        return minute // HOUR != self.hour

    def tick(self, minute: int, rows: Iterable[Row]) -> list[Event]:
        """Judge a minute; the events it brings, in order. One that was judged already brings none."""
        if minute <= self.last:
            return []
        self.last = minute
        counts: dict[str, tuple[int, int]] = {}
        for row in rows:
            tasks, looped = int(row["tasks"]), int(row["looped_tasks"])
            if tasks > 0:
                release = str(row["release"])
                before = counts.get(release, (0, 0))
                counts[release] = (before[0] + tasks, before[1] + looped)
                self.history.add(minute, release, tasks, looped)
                self.seen += tasks
        if self.first is None:
            if not counts:
                return []
            self.first = minute
        if self.needs_history(minute):
            self._begin_hour(minute)
        events: list[Event] = []
        self._watch(minute, counts)
        self._judge_releases(minute, counts, events)
        self._end_releases(minute, counts, events)
        self._judge_spike(minute, counts, events)
        return events

    def _begin_hour(self, minute: int) -> None:
        self.hour = minute // HOUR
        oldest = minute - KEPT_DAYS * DAY
        self.history.forget_before(oldest)
        self.left_out = [each for each in self.left_out if each[2] is None or each[2] >= oldest]
        self.usual = self.history.usual(minute, self.left_out)
        new = {name for name, each in self.watched.items() if not each.judged}
        before = self.history.usual(minute, self.left_out, without=new) if new else self.usual
        self.usual_before = before or self.usual

    # Releases

    def _watch(self, minute: int, counts: Mapping[str, tuple[int, int]]) -> None:
        assert self.first is not None
        for release in counts:
            known = self.watched.get(release)
            if known is not None:
                known.last = minute
                continue
            if len(self.watched) >= MOST_RELEASES:
                del self.watched[min(self.watched, key=lambda name: self.watched[name].last)]
            watched = sum(not each.judged for each in self.watched.values())
            # What runs when a series begins is no new release; more at a time than a team rolls out is noise.
            judged = minute - self.first < QUIET or watched >= MOST_WATCHED
            self.watched[release] = Watched(minute, minute, judged)

    def _judge_releases(
        self, minute: int, counts: Mapping[str, tuple[int, int]], events: list[Event]
    ) -> None:
        tasks, looped = _total(counts.values())
        if not tasks or not self.verdicts:
            return
        for release, each in self.watched.items():
            if each.judged:
                continue
            if minute - each.first >= NEW_RELEASE:
                each.judged, each.slots = True, []
                continue
            here, bad = counts.get(release, (0, 0))
            if not each.slots or each.slots[-1][0] != minute // SLOT:
                each.slots.append([minute // SLOT, 0, 0, 0, 0])
            slot = each.slots[-1]
            slot[1] += here
            slot[2] += bad
            slot[3] += tasks - here
            slot[4] += looped - bad
            if bad and self.usual_before is not None:
                self._judge_release(minute, release, each, self.usual_before, events)

    def _judge_release(
        self, minute: int, release: str, watched: Watched, usual: Baseline, events: list[Event]
    ) -> None:
        worse = compare(watched.slots, usual)
        if worse is None:
            return
        watched.judged, watched.slots = True, []
        said = {
            "rule": "release",
            "at": minute,
            "started": watched.first,
            "release": release,
            "tasks": worse.tasks,
            "looped": worse.looped,
            "usual": worse.usual,
            "beside": worse.beside,
        }
        if self.spike is not None:
            events.append({"type": "attribute", "id": self.spike.id, **said})
            return
        self.ids += 1
        events.append({"type": "open", "id": self.ids, **said})
        back = _back(max(worse.usual, 0.002), worse.dispersion)
        self.releases[release] = Alarm(self.ids, minute, watched.first, back, minute)
        self.left_out.append((release, watched.first, None))

    def _end_releases(self, minute: int, counts: Mapping[str, tuple[int, int]], events: list[Event]) -> None:
        everything, _ = _total(counts.values())
        for release, alarm in list(self.releases.items()):
            assert alarm is not None
            tasks, looped = counts.get(release, (0, 0))
            how = _over(alarm, minute, tasks, looped)
            alarm.others = 0 if tasks else alarm.others + everything
            if how is None and minute - alarm.last >= GONE and alarm.others:
                how = "gone"
            if how is None:
                continue
            self._leave_out(release, alarm, None if how == "new_normal" else minute)
            del self.releases[release]
            events.append(_resolved("release", alarm, minute, how, release))
            if self.spike is not None and self.spike.guest and not self.releases:
                self.spike = None  # what was left of it would have no incident to be part of

    # Spikes

    def _judge_spike(self, minute: int, counts: Mapping[str, tuple[int, int]], events: list[Event]) -> None:
        tasks, looped = _total(cell for name, cell in counts.items() if name not in self.releases)
        if self.spike is not None:
            self._end_spike(self.spike, minute, tasks, looped, events)
        elif tasks and self.usual is not None and self._is_ready(minute):
            fired = self._add(self.usual, minute, tasks, looped)
            if fired is not None:
                self._open_spike(self.usual, fired, minute, events)

    def _is_ready(self, minute: int) -> bool:
        return self.first is not None and minute - self.first >= QUIET and self.seen >= TASKS_NEEDED

    def _add(self, usual: Baseline, minute: int, tasks: int, looped: int) -> Sum | None:
        """Add a minute to every sum; the first one that has reached the threshold, if any."""
        fired = None
        p = usual.limit
        for each, odds in zip(self.sums, ODDS, strict=True):
            higher = min(0.95, max(odds * p / (1 - p + odds * p), p + POINTS))
            gain = looped * log(higher / p) + (tasks - looped) * log((1 - higher) / (1 - p))
            value = each.value + gain / usual.dispersion
            if value <= 0:
                each.value, each.start, each.tasks, each.looped = 0.0, minute, 0, 0
                continue
            if each.value == 0:
                each.start = minute
            each.value, each.tasks, each.looped = value, each.tasks + tasks, each.looped + looped
            if value >= self.threshold and each.looped >= FEWEST_LOOPED and fired is None:
                fired = each
        return fired

    def _open_spike(self, usual: Baseline, fired: Sum, minute: int, events: list[Event]) -> None:
        host = next((alarm for alarm in self.releases.values() if alarm is not None), None)
        if host is not None:
            kind, identity = "attach", host.id
        elif self.closed is not None and minute - self.closed[1] <= REOPENS:
            kind, identity = "reopen", self.closed[0]
        else:
            self.ids += 1
            kind, identity = "open", self.ids
        events.append(
            {
                "type": kind,
                "rule": "spike",
                "at": minute,
                "started": fired.start,
                "id": identity,
                "tasks": fired.tasks,
                "looped": fired.looped,
                "usual": usual.rate,
            }
        )
        back = _back(usual.limit, usual.dispersion)
        self.spike = Alarm(identity, minute, fired.start, back, minute, guest=host is not None)
        self.left_out.append((None, fired.start, None))
        self.sums = [Sum(start=minute) for _ in ODDS]

    def _end_spike(self, alarm: Alarm, minute: int, tasks: int, looped: int, events: list[Event]) -> None:
        how = _over(alarm, minute, tasks, looped)
        if how is None:
            return
        self._leave_out(None, alarm, None if how == "new_normal" else minute)
        self.spike = None
        if not alarm.guest:
            self.closed = (alarm.id, minute)
            events.append(_resolved("spike", alarm, minute, how))

    def end_spike(self, minute: int) -> None:
        """End the open spike since somebody says that it is over: if it goes on, it is found anew."""
        if self.spike is not None:
            self._leave_out(None, self.spike, minute)
            self.spike = None

    def _leave_out(self, release: str | None, alarm: Alarm, until: int | None) -> None:
        """Leave an incident's minutes out of what is usual; without an end they are the new usual."""
        self.left_out.remove((release, alarm.started, None))
        if until is not None:
            self.left_out.append((release, alarm.started, until))


def _over(alarm: Alarm, minute: int, tasks: int, looped: int) -> str | None:
    """Add a minute to the evidence that it is over; in a word why it is, None where it is not."""
    if tasks:
        gain = looped * alarm.back[0] + (tasks - looped) * alarm.back[1]
        alarm.over = max(0.0, alarm.over + gain)
        alarm.last = minute
    if alarm.over >= OVER and minute - alarm.at >= OVER_AFTER:
        return "back"
    if minute - alarm.last >= NO_RUNS:
        return "no_runs"
    return "new_normal" if minute - alarm.at >= NEW_NORMAL else None


def _back(usual: float, dispersion: float) -> tuple[float, float]:
    """Return what a looped task and another one say for the usual rate, against twice of it."""
    higher = min(0.97, max(2 * usual, usual + POINTS))
    return log(usual / higher) / dispersion, log((1 - usual) / (1 - higher)) / dispersion


def _resolved(rule: str, alarm: Alarm, minute: int, how: str, release: str | None = None) -> Event:
    event: Event = {"type": "resolve", "rule": rule, "at": minute, "started": alarm.started, "id": alarm.id}
    event["how"] = how
    return event if release is None else {**event, "release": release}


def _total(cells: Iterable[Sequence[int]]) -> tuple[int, int]:
    tasks = looped = 0
    for cell in cells:
        tasks += cell[0]
        looped += cell[1]
    return tasks, looped


def _read_usual(kept: Mapping[str, Any] | None) -> Baseline | None:
    return Baseline(**kept) if kept else None


def _read_alarm(kept: Mapping[str, Any] | None) -> Alarm | None:
    return Alarm(**{**kept, "back": tuple(kept["back"])}) if kept else None
