"""Exact percentiles from a histogram of whole values."""

from __future__ import annotations

from collections.abc import Mapping


def nearest_rank(tasks: Mapping[int, int], percent: int) -> int | None:
    """Return the smallest value that at least ``percent`` % of tasks do not exceed; None without tasks."""
    rank = -(-sum(tasks.values()) * percent // 100)
    for value in sorted(tasks):
        rank -= tasks[value]
        if rank <= 0 < tasks[value]:
            return value
    return None
