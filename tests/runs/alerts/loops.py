"""Minutes of tasks as fold leaves them, for tests of what judges them."""

from __future__ import annotations

import random

from runs.models import LoopClock, LoopMinute

Series = dict[int, list[tuple[str, int, int]]]
"""By minute: release, tasks, looped ones."""


def steady(
    rng: random.Random, first: int, last: int, *, tasks: int, rate: float, release: str = "r1"
) -> Series:
    """Return minutes of which each has so many tasks; each loops by itself."""
    return {
        minute: [(release, tasks, sum(rng.random() < rate for _ in range(tasks)))]
        for minute in range(first, last)
    }


def write_minutes(
    series: Series, *, tenant_id: int = 1, job_type: str = "support", provider: int = 0
) -> None:
    """Write minutes as closed ones."""
    LoopMinute.objects.bulk_create(
        LoopMinute(
            tenant_id=tenant_id,
            job_type=job_type,
            minute=minute,
            release=release,
            runs=tasks + provider,
            looped=looped,
            provider=provider,
            tasks=tasks,
            looped_tasks=looped,
        )
        for minute, rows in series.items()
        for release, tasks, looped in rows
    )


def close(minute: int) -> None:
    """Say that minutes have closed up to this one."""
    LoopClock.objects.update_or_create(id=1, defaults={"closed": minute, "mark": 0})
