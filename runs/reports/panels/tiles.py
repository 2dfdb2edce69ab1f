"""The tiles: each measure now, against the period before, over time, and the list of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from guardops import shown
from guardops.charts import Part, sparkline, split_bar
from runs.reports.metrics import Counts, Tiles, Window

from .change import Change, count_change, mean_change, money_change, share_change
from .links import Links, Value

Series = Sequence[Counts]


@dataclass(frozen=True, slots=True)
class Note:
    """A smaller number under a tile's, with its own rows."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Tile:
    name: str
    value: str
    href: str
    change: Change | None
    spark: str
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class CostRow:
    """A part of the cost: in the window, and for each completed task."""

    css: str
    name: str
    cost: Decimal
    each: Decimal | None
    href: str


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost per completed task (None where none completed), its parts, and the part of later attempts."""

    value: Decimal | None
    change: Change | None
    href: str
    bar: tuple[Part, ...]
    rows: tuple[CostRow, ...]
    sums: tuple[CostRow, ...]  # of all runs, and of it what attempts after the first cost


@dataclass(frozen=True, slots=True)
class TilesPanel:
    cost: Cost
    tiles: tuple[Tile, ...]


class _Reader:
    """What all tiles are made from; ``whole`` are the buckets that are over, which alone compare."""

    def __init__(self, tiles: Tiles, window: Window, links: Links) -> None:
        self.now, self.before = tiles.now, tiles.before
        self.window, self.links = window, links
        self.whole: Series = [
            counts for bucket, counts in zip(tiles.buckets, tiles.series, strict=True) if not bucket.partial
        ]

    def href(self, **filters: Value) -> str:
        return self.links.runs(self.window.start, self.window.end, **filters)

    def spark(self, read: Callable[[Counts], float | Decimal | None]) -> str:
        return sparkline(self.values(read))

    def values(self, read: Callable[[Counts], float | Decimal | None]) -> list[float | None]:
        return [None if (value := read(counts)) is None else float(value) for counts in self.whole]

    def spread(self, read: Callable[[Counts], float | Decimal | None]) -> list[float]:
        return [value for value in self.values(read) if value is not None]


def tiles_panel(tiles: Tiles, window: Window, links: Links) -> TilesPanel:
    reader = _Reader(tiles, window, links)
    made = (
        _runs(reader),
        _completed(reader),
        _halted(reader),
        _looped(reader),
        _forced(reader),
        _blocked(reader),
        _duplicates(reader),
        _loop_cost(reader),
    )
    return TilesPanel(_cost(reader), made)


def _runs(r: _Reader) -> Tile:
    change = count_change(r.now.runs, r.before.runs)
    notes = (Note(f"{shown.count(r.now.stopped)} stopped by a guard", r.href(stopped="1")),)
    return Tile("Runs", shown.count(r.now.runs), r.href(), change, r.spark(lambda c: c.runs), notes)


def _completed(r: _Reader) -> Tile:
    change = count_change(r.now.completed, r.before.completed)
    notes = (Note(f"of {_some(r.now.eligible, 'task')}", r.href(eligible="1")),)
    spark = r.spark(lambda c: c.completed)
    return Tile("Completed tasks", shown.count(r.now.completed), r.href(completes="1"), change, spark, notes)


def _share(
    r: _Reader,
    name: str,
    read: Callable[[Counts], float | None],
    hits: int,
    href: str,
    *notes: Note,
    unjudged: tuple[int, int] = (0, 0),
) -> Tile:
    """A share of runs; ``unjudged`` are those that it leaves out, now and before."""
    now, before = read(r.now), read(r.before)
    sizes = (r.now.runs - unjudged[0], r.before.runs - unjudged[1])
    change = share_change(now, before, sizes, r.spread(read))
    value = "none" if now is None else shown.share(now)
    return Tile(name, value, href, change, r.spark(read), (Note(_some(hits, "run"), href), *notes))


def _some(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _halted(r: _Reader) -> Tile:
    href = r.href(outcome=("halted", "escalated"))
    return _share(r, "Halted share", lambda c: c.halted_share, r.now.halted, href)


def _looped(r: _Reader) -> Tile:
    failures = Note(_some(r.now.provider_failures, "provider failure"), r.href(provider_failure="1"))
    return _share(
        r,
        "Loop rate",
        lambda c: c.loop_rate,
        r.now.looped,
        r.href(looped="1"),
        failures,
        unjudged=(r.now.provider_failures, r.before.provider_failures),
    )


def _forced(r: _Reader) -> Tile:
    return _share(r, "Forced answers", lambda c: c.forced_share, r.now.forced, r.href(forced="1"))


def _blocked(r: _Reader) -> Tile:
    return _share(
        r, "Runs with a blocked call", lambda c: c.blocked_share, r.now.blocked, r.href(blocked="1")
    )


def _duplicates(r: _Reader) -> Tile:
    now, before = r.now.mean_duplicates, r.before.mean_duplicates
    change = mean_change(now, before, r.spread(lambda c: c.mean_duplicates))
    href = r.href(duplicates="1")
    value = "none" if now is None else shown.number(now)
    notes = (Note(f"{shown.count(r.now.duplicates)} in all", href),)
    return Tile("Duplicate calls a run", value, href, change, r.spark(lambda c: c.mean_duplicates), notes)


def _loop_cost(r: _Reader) -> Tile:
    change = None
    if r.before.runs:
        change = money_change(r.now.loop_cost, r.before.loop_cost, _totals(r.spread(lambda c: c.loop_cost)))
    href = r.href(looped="1")
    part = float(r.now.loop_cost / r.now.cost) if r.now.cost else 0.0
    notes = (Note(f"{shown.share(part)} of all cost", href),)
    spark = r.spark(lambda c: c.loop_cost)
    return Tile("Cost of runs with a loop", shown.money(r.now.loop_cost), href, change, spark, notes)


def _totals(values: list[float]) -> list[float]:
    """Scale the buckets' amounts to a whole window's, since it is windows that are compared."""
    return [value * len(values) for value in values]


def _cost(r: _Reader) -> Cost:
    now = r.now
    value, before = now.cost_per_completed_task, r.before.cost_per_completed_task
    change = money_change(value, before, r.spread(lambda c: c.cost_per_completed_task), percent=True)

    def row(css: str, name: str, amount: Decimal, **filters: Value) -> CostRow:
        return CostRow(
            css, name, amount, amount / now.completed if now.completed else None, r.href(**filters)
        )

    rows = (
        row("k-useful", "Useful", now.cost_useful, cost="useful"),
        row("k-forced", "Forced answers", now.cost_forced, cost="forced"),
        row("k-halted", "Halted", now.cost_halted, cost="halted"),
        row("k-failed", "Failed", now.cost_failed, cost="failed"),
    )
    bar = split_bar([(one.css, float(one.cost), f"{one.name} {shown.money(one.cost)}") for one in rows])
    sums = (
        row("", "All runs", now.cost),
        row("", "of which attempts ≥ 2", now.repeated_cost, attempt_min="2"),
    )
    return Cost(value, change, r.href(completes="1"), bar, rows, sums)
