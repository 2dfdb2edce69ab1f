"""Run a file of guard cases: ``python -m guardops.guard.cases FILE``.

A case is a policy, a list of calls and the first verdict other than ``continue`` that they must meet. One
that kills or restarts the process is run with the default store in a temporary file: each start gets a store
of its own, and what the process before it held counts as left by a dead one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from guardops.guard.events import Action, Outcome
from guardops.guard.ids import uuid7
from guardops.guard.policy import Policy, PolicyError
from guardops.guard.reasons import Reason
from guardops.guard.session import Check, Guard, RunGuard, Verdict
from guardops.guard.sqlite import SqliteStore
from guardops.guard.state import Ticket

STARTED_AT = datetime(2026, 1, 1, tzinfo=UTC)
RUN_ID = uuid7(int(STARTED_AT.timestamp() * 1_000), 1)


@dataclass(frozen=True, slots=True)
class Result:
    """The first verdict of a case: its reason (or ``wait``, ``continue``), its call (1-based), its phase."""

    verdict: str
    at_step: int
    phase: str | None = None
    not_before: float | None = None
    outcome: Outcome | None = None


class _Process:
    """The process of a case's agent: what it forgets when it dies, and the file that it leaves, if any."""

    def __init__(self, policy: Policy, path: Path | None) -> None:
        self._policy = policy
        self._path = path
        self.run = self._start()

    def restart(self) -> None:
        """Kill the process and start it again."""
        self.die()
        self.run = self._start()

    def die(self) -> None:
        """Let go of the file as a killed process does, with everything left as it is."""
        if self._store is not None:
            self._store.close()

    def _start(self) -> RunGuard:
        self._store = SqliteStore(self._path) if self._path else None
        guard = Guard(self._policy, store=self._store, jitter=lambda: 0.0, now=lambda: STARTED_AT)
        return guard.run(job_type="case", run_id=RUN_ID, started_at=STARTED_AT, clock=lambda: 0.0)


@dataclass(slots=True)
class _Replay:
    """A case under way: the process, and the time, which stands still where a call names none."""

    process: _Process
    at: float = 0.0
    turn: int = 1
    tickets: dict[int, Ticket] = field(default_factory=dict)

    @property
    def run(self) -> RunGuard:
        """The run, as the process that lives now knows it."""
        return self.process.run

    def crash(self) -> None:
        """Kill the process with all that it has in flight, and start it again."""
        self.tickets.clear()
        self.process.restart()


def load(path: Path) -> list[dict[str, Any]]:
    """Read a case file, one JSON object a line; arguments may hold what only a lenient reader takes (NaN)."""
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def needs_durable_store(case: Mapping[str, Any]) -> bool:
    """Say whether a case restarts or kills the process."""
    return any(call["tool"] == "@restart" or call.get("crash") for call in case["calls"])


def run_case(case: Mapping[str, Any], *, durable: bool | None = None) -> Result:
    """Put a case's calls through the guard until a verdict other than ``continue``.

    With ``durable`` the run is kept in a temporary file; by default it is where the case needs that. A policy
    that must not be run meets ``invalid_policy`` before the first call.
    """
    try:
        policy = Policy.from_mapping(case["policy"])
    except PolicyError as error:
        return Result(error.code, 0)
    if not (needs_durable_store(case) if durable is None else durable):
        return _play(case, _Process(policy, None))
    with TemporaryDirectory(prefix="guard-case-") as folder:
        process = _Process(policy, Path(folder) / "guard.db")
        try:
            return _play(case, process)
        finally:
            process.die()


def _play(case: Mapping[str, Any], process: _Process) -> Result:
    replay = _Replay(process)
    for group in _groups(case["calls"]):
        found = _run_group(replay, group)
        if found is not None:
            break
    else:
        found = Result("continue", len(case["calls"]))
    run = process.run
    if run.counts.faults:
        raise RuntimeError(f"the guard itself failed: {', '.join(run.counts.faults)}")
    return replace(found, outcome=run.end(Outcome.COMPLETED, at=replay.at).outcome)


def difference(case: Mapping[str, Any], result: Result) -> str:
    """Return how a result differs from what the case expects, or an empty text."""
    expect = case["expect"]
    wrong = [
        f"{name} {getattr(result, name)!r} instead of {expect[name]!r}"
        for name in ("verdict", "at_step", "phase", "not_before")
        if name in expect and getattr(result, name) != expect[name]
    ]
    if result.outcome is not None and expect.get("outcome_not") == result.outcome:
        wrong.append(f"outcome {result.outcome.value!r}")
    return ", ".join(wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the files named on the command line; return 1 where a case differs."""
    parser = argparse.ArgumentParser(prog="guardops.guard.cases", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    loaded = [case for path in parser.parse_args(arguments).files for case in load(path)]
    # Exported from a run whose steps were not all kept: its verdict can't be expected of what is left.
    partial = [case["id"] for case in loaded if case.get("partial")]
    cases = [case for case in loaded if not case.get("partial")]
    differing = 0
    for case in cases:
        wrong = _judged(case)
        if wrong:
            differing += 1
            print(f"{case['id']}: {wrong} ({case['description']})")
    if partial:
        print(f"partial, not judged: {', '.join(partial)}")
    print(f"{len(cases) - differing} of {len(cases)} cases as expected")
    return 1 if differing else 0


def _judged(case: Mapping[str, Any]) -> str:
    """Return how a case differs, one that can't be run included, so that the rest of the file is run."""
    try:
        return difference(case, run_case(case))
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def _groups(calls: Sequence[Mapping[str, Any]]) -> Iterator[list[tuple[int, Mapping[str, Any]]]]:
    """Yield calls with their 1-based index: one at a time, or a parallel batch together."""
    group: list[tuple[int, Mapping[str, Any]]] = []
    for index, call in enumerate(calls, start=1):
        batch = call.get("batch")
        if group and (batch is None or batch != group[0][1].get("batch")):
            yield group
            group = []
        group.append((index, call))
    if group:
        yield group


def _run_group(replay: _Replay, group: Sequence[tuple[int, Mapping[str, Any]]]) -> Result | None:
    for index, call in group:
        replay.at = call.get("at", replay.at)
        found = (
            _pseudo(replay, index, call) if call["tool"].startswith("@") else _propose(replay, index, call)
        )
        if found is not None:
            return found
    for index, call in group:
        ticket = replay.tickets.pop(index, None)
        if ticket is None:
            continue
        if call.get("crash"):
            replay.crash()
            break
        verdict = replay.run.observe(
            ticket,
            result=call.get("result"),
            error=call.get("error"),
            progressed=call.get("progressed"),
            at=replay.at,
        )
        if verdict.action is not Action.CONTINUE:
            return Result(_name(verdict), index, "post")
    return None


def _propose(replay: _Replay, index: int, call: Mapping[str, Any]) -> Result | None:
    while replay.turn < call.get("turn", replay.turn):
        replay.turn += 1
        verdict = replay.run.turn(at=replay.at)
        if verdict.action is not Action.CONTINUE:
            return Result(_name(verdict), index, "pre")
    answer = replay.run.check(
        call["tool"], call["args"], at=replay.at, batch=call.get("batch"), depth=call.get("depth", 0)
    )
    if answer.ticket is not None:
        replay.tickets[index] = answer.ticket
        return None
    return Result(_name(answer), index, "pre", answer.not_before)


def _pseudo(replay: _Replay, index: int, call: Mapping[str, Any]) -> Result | None:
    """Do what a pseudo tool stands for; only a model turn can meet a verdict."""
    run, args = replay.run, call["args"]
    match call["tool"]:
        case "@turn":
            verdict = run.turn(tokens_out=args.get("tokens", 0), cost=args.get("cost", 0), at=replay.at)
            if verdict.action is not Action.CONTINUE:
                return Result(_name(verdict), index, "post")
        case "@restart":
            replay.crash()
        case "@state":
            run.state_changed(args.get("version"))
        case "@approve":
            run.approve(args["tool"], args["args"])
        case "@restore":
            run.restore(args)
        case unknown:
            raise ValueError(f"{unknown} is no pseudo tool")
    return None


def _name(answer: Check | Verdict) -> str:
    if answer.action is Action.WAIT:
        return Action.WAIT.value
    return answer.reason.value if isinstance(answer.reason, Reason) else str(answer.reason)


if __name__ == "__main__":
    sys.exit(main())
