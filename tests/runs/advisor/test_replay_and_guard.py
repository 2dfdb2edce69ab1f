"""A replay says of a run under loose caps what the guard does to the same run under the tight one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from guardops.guard.agent_run import AgentRun
from guardops.guard.events import Outcome, RunEnded
from guardops.guard.policy import Policy
from guardops.guard.session import Guard
from runs.advisor.caps import CAPS
from runs.advisor.replay import Fate, changes_between, fate_of

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
LOOSE = {
    "max_steps": 400,
    "max_turns": 400,
    "max_seconds": 100_000,
    "max_tokens": 10**8,
    "max_cost": 100,
    "max_retries_run": 50,
    "max_retries": 20,
    "max_repeats": 50,
    "max_executions": 100,
    "max_refusals": 50,
    "max_empty": 50,
    "stall_limit": 100,
    "max_error_streak": 50,
    "domain_cap": 200,
    "listing_cap": 200,
    "backoff": 0,
    "cycle_reps": 10,
    "window": 100,
}
Script = Callable[[AgentRun], Iterator[None]]


def calls(tool: str, count: int, **outcome: Any) -> Script:
    """So many calls, each another one with another result, 10 seconds after the one before."""

    def script(run: AgentRun) -> Iterator[None]:
        for number in range(count):
            yield from one_call(run, tool, {"n": number}, number, **{"result": f"new {number}", **outcome})

    return script


def one_call(run: AgentRun, tool: str, args: dict[str, Any], number: int, **outcome: Any) -> Iterator[None]:
    check = run.check(tool, args, at=number * 10.0)
    if check.ticket is not None:
        run.observe(check.ticket, at=number * 10.0 + 5, **outcome)
    yield


def stepping(count: int) -> Script:
    return calls("look", count)


def same_call(count: int) -> Script:
    def script(run: AgentRun) -> Iterator[None]:
        for number in range(count):
            yield from one_call(run, "look", {"q": "x"}, number, result="same", progressed=True)

    return script


def stalled(count: int) -> Script:
    return calls("look", count, result="nothing new", progressed=False)


def failing(count: int) -> Script:
    return calls("look", count, result=None, error={"error_code": "bad", "status": 404})


def retried(count: int) -> Script:
    """A call and so many retries of it."""

    def script(run: AgentRun) -> Iterator[None]:
        for number in range(count + 1):
            yield from one_call(run, "look", {"q": "x"}, number, error={"status": 503})

    return script


def fetching(count: int) -> Script:
    def script(run: AgentRun) -> Iterator[None]:
        for number in range(count):
            url = f"https://docs.example.com/page-{number}"
            yield from one_call(run, "fetch", {"url": url}, number, result=f"page {number}")

    return script


def paging(count: int) -> Script:
    def script(run: AgentRun) -> Iterator[None]:
        for number in range(count):
            url = f"https://shop.example/list?page={number}"
            yield from one_call(run, "fetch", {"url": url}, number, result=f"list {number}")

    return script


def refused(count: int) -> Script:
    """So many calls that are refused: the second of each that failed for good."""

    def script(run: AgentRun) -> Iterator[None]:
        for number in range(count):
            args = {"q": str(number)}
            yield from one_call(run, "look", args, 2 * number, error={"status": 404}, progressed=True)
            yield from one_call(run, "look", args, 2 * number + 1)

    return script


def turns(count: int, **usage: Any) -> Script:
    """So many model turns, the last of which answers."""

    def script(run: AgentRun) -> Iterator[None]:
        for number in range(count):
            run.turn(at=number * 10.0, answered=number == count - 1, **usage)
            yield

    return script


def play(caps: dict[str, Any], script: Script) -> RunEnded:
    """Return the event of a run that follows the script, whatever the guard says, and completes."""
    run = Guard(Policy.from_mapping({**LOOSE, **caps}), jitter=lambda: 0.0).run(
        job_type="research", clock=lambda: 0.0, started_at=NOW
    )
    done = sum(1 for _ in script(run))
    return run.end(Outcome.COMPLETED, at=done * 10.0 - 4)


def row_of(event: RunEnded) -> SimpleNamespace:
    """Return the event as the run table has it."""
    peaks = {f"peak_{name}": getattr(event.peaks, name) for name in event.peaks.__struct_fields__}
    return SimpleNamespace(
        **peaks,
        outcome=event.outcome,
        halt_reason=event.halt_reason or "",
        step_unit=event.step_unit,
        steps=event.steps,
        turns=event.turns,
        retries=event.retries,
        tokens_input=event.tokens.input,
        tokens_output=event.tokens.output,
        duration_ms=round((event.ended_at - event.started_at).total_seconds() * 1_000),
        cost=event.cost,
    )


@pytest.mark.parametrize(
    ("name", "script", "first"),
    [
        ("max_steps", stepping, 5),
        ("max_turns", turns, 6),
        ("max_repeats", same_call, 6),
        ("stall_limit", stalled, 5),
        ("max_error_streak", failing, 5),
        ("max_retries_run", retried, 6),
        ("domain_cap", fetching, 6),
        ("listing_cap", paging, 6),
        ("max_refusals", refused, 5),
    ],
)
def test_run_meets_a_cap_of_five_from_where_the_guard_answers_it(
    name: str, script: Callable[[int], Script], first: int
) -> None:
    for count in range(3, 9):
        loose = row_of(play({}, script(count)))
        assert loose.outcome == Outcome.COMPLETED
        answered = {one.reason for one in play({name: 5}, script(count)).interventions}
        fate, _ = fate_of(loose, changes_between({name: LOOSE[name]}, {name: 5}))
        assert (fate is Fate.FALSE_STOP) == (CAPS[name].reason in answered) == (count >= first)


def test_no_budget_is_met_below_it_and_each_at_it() -> None:
    script = turns(6, tokens_in=90, tokens_out=10, cost="0.10")
    loose = row_of(play({}, script))
    # The last turn answered: 500 tokens, 0.50 USD and 50 s had been counted before it.
    for name, below, at in (("max_tokens", 601, 500), ("max_cost", "0.61", "0.5"), ("max_seconds", 57, 40)):
        cap = CAPS[name]
        for value, stopped in ((below, False), (at, True)):
            tight = play({name: value}, script)
            fate, _ = fate_of(loose, changes_between({name: cap.read(LOOSE[name])}, {name: cap.read(value)}))
            assert (fate is Fate.FALSE_STOP, tight.halt_reason == cap.reason) == (stopped, stopped)


@pytest.mark.parametrize(("name", "script"), [("max_steps", stepping), ("max_turns", turns)])
def test_run_that_a_cap_stopped_is_stopped_no_longer_under_a_looser_one(
    name: str, script: Callable[[int], Script]
) -> None:
    stopped = row_of(play({name: 5}, script(6)))
    assert fate_of(stopped, changes_between({name: 5}, {name: 9}))[0] is Fate.NO_LONGER
    assert fate_of(stopped, changes_between({name: 5}, {name: 3}))[0] is Fate.SOONER
    assert fate_of(stopped, changes_between({name: 4}, {name: 5}))[0] is None


def test_run_stopped_for_its_retries_stands_at_the_cap() -> None:
    stopped = row_of(play({"max_retries_run": 3}, retried(5)))
    stopped.outcome, stopped.halt_reason = Outcome.HALTED, "tool_retry_exhausted"
    assert stopped.retries == 3
    looser = changes_between({"max_retries_run": 3}, {"max_retries_run": 4})
    assert fate_of(stopped, looser)[0] is Fate.NO_LONGER
