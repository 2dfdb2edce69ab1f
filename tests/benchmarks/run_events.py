"""Events for benchmarks: the shared recordings played through the guard, or others of their shape."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import cycle, islice

import msgspec

from guardops.guard import events
from guardops.guard.events import RunEnded, RunHeartbeat, RunStarted
from guardops.guard.ids import uuid7
from guardops.guard.policy import Policy
from guardops.guard.wire import Event
from runs.partitions import unix_ms
from runs.replay.play import Player
from runs.replay.timing import Calendar
from runs.replay.traces import read_traces
from tests.plugin import SHARED

RECORDED = SHARED / "data" / "runs.jsonl.gz"
PATTERNS = 4_000
WINDOW = timedelta(hours=1)
_MICRO = Decimal("0.000001")


def make_events(count: int, until: datetime, seed: int = 1) -> Iterator[RunEnded]:
    """Give ``count`` runs with ids of their own that ended, in order, in the hour before ``until``."""
    rng = random.Random(seed)
    patterns = list(_recorded(until) if RECORDED.exists() else _made_up(rng, until))
    rng.shuffle(patterns)
    for place, pattern in enumerate(islice(cycle(patterns), count)):
        ended_at = until - WINDOW + WINDOW * ((place + rng.random()) / count)
        started_at = ended_at - (pattern.ended_at - pattern.started_at)
        run_id = uuid7(unix_ms(started_at), rng.getrandbits(74))
        yield msgspec.structs.replace(
            pattern,
            run_id=run_id,
            root_task_id=str(run_id),
            started_at=started_at,
            ended_at=ended_at,
        )


def interleave(runs: Sequence[RunEnded], lag: int) -> Iterator[Event]:
    """Give the start, three heartbeats and the end of each run, ``lag`` other runs between two of them.

    So four times ``lag`` runs live at one time, as on a server whose senders have so many under way.
    """
    for place in range(len(runs) + 4 * lag):
        for stage in range(5):
            if 0 <= place - stage * lag < len(runs):
                yield _event_of(runs[place - stage * lag], stage)


def _event_of(run: RunEnded, stage: int) -> Event:
    """Return the run's start (0), one of its heartbeats (1 to 3) or its end (4)."""
    if stage == 4:
        return run
    if stage == 0:
        return RunStarted(
            run_id=run.run_id,
            root_task_id=run.root_task_id,
            job_type=run.job_type,
            agent=run.agent,
            release=run.release,
            started_at=run.started_at,
            limits=run.limits,
            guard=run.guard,
        )
    return RunHeartbeat(
        run_id=run.run_id,
        seq=stage,
        at=run.started_at + (run.ended_at - run.started_at) * stage / 4,
        steps=run.steps * stage // 4,
        turns=run.turns * stage // 4,
        cost=(run.cost * stage / 4).quantize(_MICRO),
        pressure={name: round(stage / (4 + place), 3) for place, name in enumerate(run.limits)},
        sources=run.sources[:5],
    )


def _recorded(until: datetime) -> Iterator[RunEnded]:
    player = Player(Policy(), Calendar(until))
    for trace in islice(read_traces(RECORDED), 0, None, 4):
        yield player.play(trace).event


def _made_up(rng: random.Random, until: datetime) -> Iterator[RunEnded]:
    tools = ["search_web", "open_page", "send_money", "read_file", "query_sql", "list_calendar", "get_inbox"]

    def digest() -> str:
        return f"{rng.getrandbits(64):016x}"

    for _ in range(PATTERNS):
        steps, stopped = rng.randint(2, 15), rng.random() < 0.15
        started_at = until - timedelta(seconds=rng.uniform(5, 300))
        calls = [(rng.choice(tools), digest()) for _ in range(steps)]
        yield RunEnded(
            job_type=rng.choice(["banking", "slack", "travel", "workspace", "sql", "bash"]),
            agent=f"agent-{rng.randint(1, 5)}",
            release=f"2026.{rng.randint(1, 4)}",
            outcome=events.Outcome.COMPLETED_FORCED
            if stopped
            else rng.choice(list(events.Outcome)[:1] * 5 + [events.Outcome.FAILED]),
            answer=events.Answer.FORCED if stopped else events.Answer.FULL,
            halt_reason="no_progress" if stopped else None,
            started_at=started_at,
            ended_at=until,
            steps=steps,
            turns=steps + 1,
            tool_calls=steps,
            duplicates=rng.randint(0, 3),
            blocked_fingerprints=int(stopped),
            tokens=events.TokenCounts(input=rng.randint(1_000, 90_000), output=rng.randint(100, 9_000)),
            cost=Decimal(rng.randint(1_000, 900_000)).scaleb(-6),
            cost_basis=events.CostBasis.PRICE_TABLE,
            peaks=events.Peaks(repeats=rng.randint(1, 4), stall=rng.randint(0, 6)),
            sources=[
                events.Source(kind=events.SourceKind.TOOL, name=name, calls=rng.randint(1, 5))
                for name in rng.sample(tools, 2)
            ],
            ledger=[
                events.LedgerRow(
                    fingerprint=found, tool=tool, args_hash=digest(), count=1, result_digest=digest()
                )
                for tool, found in calls[:5]
            ],
            last_steps=[
                events.Step(
                    step=place + 1, tool=tool, args='{"q":"x"}', args_hash=found, result_digest=digest()
                )
                for place, (tool, found) in enumerate(calls[-5:])
            ],
            limits=Policy().limits_in_force(),
            guard=events.GuardInfo(version="0.1.0", adapter="plain", instance=digest()[:8]),
        )
