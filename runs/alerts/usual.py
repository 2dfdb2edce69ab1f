"""What is usual of a series: how many of its tasks loop at this hour, and how much that varies by itself.

Pure: a history goes in, a `Baseline` comes out. Ten-minute blocks are counted by release, since a release
that is judged must not be its own yardstick. Estimates are shrunk: the last day towards the last week, this
hour of the days before towards the last day, each by the weight of a few looped tasks, so that a thin series
is not called quiet because nothing has happened yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import sqrt

BLOCK = 10
HOUR = 60
DAY = 1_440
BLOCKS_A_DAY = DAY // BLOCK
KEPT_DAYS = 8
WEEK = 7 * BLOCKS_A_DAY
FLOOR = 0.005
"""A rate is never called lower than this: below it, two runs in a row would be news."""
PRIOR = 10.0
"""Looped tasks that the longer view weighs in the shorter one."""
TASKS_NEEDED = 60
FEWEST_DAYS = 4
CLIP = 3.0
"""An hour so many standard deviations above the mean says nothing of how much is usual."""
WOBBLE = 0.1
MAX_DISPERSION = 10.0

Counts = tuple[int, int]
"""Tasks, and those that looped."""
LeftOut = tuple[str | None, int, int | None]
"""A release (None: every one), and from which minute to which (None: on) its minutes are not usual."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is usual at an hour. ``rate`` is what one says, ``limit`` what evidence is measured against.

    ``dispersion`` is how much more block counts vary than independent tasks would (1 to 10); ``tasks`` is
    how many stand behind the rate.
    """

    limit: float
    dispersion: float
    rate: float
    tasks: float


class History:
    """The last days of a series: tasks by block and release."""

    def __init__(self) -> None:
        self.blocks: dict[int, dict[str, list[int]]] = {}

    def tasks_since(self, minute: int) -> int:
        """Return how many tasks there were in the blocks from the minute's on."""
        blocks = (cells for block, cells in self.blocks.items() if block >= minute // BLOCK)
        return sum(cell[0] for cells in blocks for cell in cells.values())

    def add(self, minute: int, release: str, tasks: int, looped: int) -> None:
        cell = self.blocks.setdefault(minute // BLOCK, {}).setdefault(release, [0, 0])
        cell[0] += tasks
        cell[1] += looped

    def forget_before(self, minute: int) -> None:
        for block in [block for block in self.blocks if block < minute // BLOCK]:
            del self.blocks[block]

    def usual(
        self, minute: int, left_out: Collection[LeftOut] = (), without: Collection[str] = ()
    ) -> Baseline | None:
        """Return what is usual at the minute's hour; None where too few tasks are known.

        The hour under way says nothing yet. ``left_out`` are minutes of incidents, ``without`` releases.
        """
        now = minute // HOUR * (HOUR // BLOCK)
        counts = self._counts(now, left_out, without)
        known = {block: cell for block, cell in counts.items() if block < now - 6}
        week = _sum(cell for block, cell in known.items() if block >= now - WEEK - 6)
        if week[0] < TASKS_NEEDED:
            return None
        weekly = (week[1] + 1) / (week[0] + 50)
        day = _sum(cell for block, cell in known.items() if block >= now - BLOCKS_A_DAY - 6)
        rate, tasks = _shrunk(day, weekly)
        at_hour, of_hour = _shrunk(_same_hour(known, now, weekly), rate)
        tasks = min(tasks, week[0] + 50)
        if at_hour > rate:
            rate, tasks = at_hour, of_hour
        rate = max(rate, FLOOR)
        dispersion, wobble = _variation(counts, max(weekly, 0.001), now)
        margin = sqrt(rate * (1 - rate) * dispersion / tasks + wobble * rate * rate)
        return Baseline(min(rate + margin, 0.9), dispersion, rate, tasks)

    def _counts(self, now: int, left_out: Collection[LeftOut], without: Collection[str]) -> dict[int, Counts]:
        counts = {}
        for block, cells in self.blocks.items():
            if block >= now:
                continue
            tasks = looped = 0
            for release, (here, bad) in cells.items():
                if release not in without and not (left_out and _is_left_out(block, release, left_out)):
                    tasks += here
                    looped += bad
            if tasks:
                counts[block] = (tasks, looped)
        return counts


def _is_left_out(block: int, release: str, left_out: Collection[LeftOut]) -> bool:
    first, last = block * BLOCK, block * BLOCK + BLOCK - 1
    return any(
        (name is None or name == release) and last >= start and (end is None or first <= end)
        for name, start, end in left_out
    )


def _sum(cells: Iterable[Counts]) -> Counts:
    tasks = looped = 0
    for here, bad in cells:
        tasks += here
        looped += bad
    return tasks, looped


def _shrunk(counts: Counts, towards: float) -> tuple[float, float]:
    """Return the rate, pulled towards another, and the tasks that it then rests on."""
    tasks = counts[0] + PRIOR / towards
    return (counts[1] + PRIOR) / tasks, tasks


def _same_hour(known: dict[int, Counts], now: int, weekly: float) -> Counts:
    """Count this hour and its neighbours on the last seven days, without the day that stands out most.

    What went wrong on one day at this hour, unseen, would otherwise be expected of every day.
    """
    days: dict[int, list[int]] = {}
    for block, (tasks, looped) in known.items():
        if block >= now - WEEK - 6 and (block // 6 - now // 6) % 24 in (0, 1, 23):
            day = days.setdefault((block - now + 78) // BLOCKS_A_DAY, [0, 0])
            day[0] += tasks
            day[1] += looped
    if len(days) >= FEWEST_DAYS:
        del days[max(days, key=lambda day: days[day][1] - weekly * days[day][0])]
    return sum(day[0] for day in days.values()), sum(day[1] for day in days.values())


def _variation(counts: dict[int, Counts], rate: float, now: int) -> tuple[float, float]:
    """Return the dispersion of blocks and the square of the wobble of hours, relative to the rate.

    Hours that stand out are clipped: an incident that nobody saw would hide the next one.
    """
    hours: dict[int, list[int]] = {}
    for block, (tasks, looped) in counts.items():
        if block >= now - WEEK:
            hour = hours.setdefault(block // 6, [0, 0])
            hour[0] += tasks
            hour[1] += looped
    one = rate * (1 - rate)
    usual = hours
    for _ in range(3):
        spread = max(1.0, _ratio([(tasks, looped) for tasks, looped in usual.values()], rate, one))
        usual = {
            hour: cell
            for hour, cell in hours.items()
            if cell[1] - cell[0] * rate <= 2.0 + CLIP * sqrt(spread * cell[0] * one)
        }
    within = [cell for block, cell in counts.items() if block >= now - WEEK and block // 6 in usual]
    dispersion = min(MAX_DISPERSION, max(1.0, _ratio(within, rate, one)))
    beyond = sum((k - n * rate) ** 2 - dispersion * n * one for n, k in usual.values())
    squares = sum((n * rate) ** 2 for n, _ in usual.values())
    expected = sum(n * rate for n, _ in usual.values()) / max(1, len(usual))
    weight = 24 * max(expected, 1.0) ** 2  # a day's worth of hours of the usual wobble
    return dispersion, max(0.0, (beyond + WOBBLE**2 * weight) / (squares + weight))


def _ratio(cells: Collection[Counts], rate: float, one: float) -> float:
    """Return how much cells vary, against independent tasks; a little of both is taken as known."""
    squares = sum((looped - tasks * rate) ** 2 for tasks, looped in cells)
    return (squares + 20) / (sum(tasks for tasks, _ in cells) * one + 10)
