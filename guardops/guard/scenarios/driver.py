"""Drives a scripted or recorded agent through the guard as a real loop would, on a clock of its own.

A refused call counts as not run and the agent goes on. The first force_answer, escalate or halt is the
stop: after a forced answer the model is called once more, without tools, and the run ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from guardops.guard.events import Action, Outcome, RunEnded
from guardops.guard.scenarios.economy import AS_MODELLED, Rates, Transcript
from guardops.guard.scenarios.script import Heard, Move, Script, Seen, Turn
from guardops.guard.session import Check, RunGuard, Verdict

STOPS = frozenset({Action.FORCE_ANSWER, Action.ESCALATE, Action.HALT})
_WEIGHT = {Action.CONTINUE: 0, Action.WAIT: 1, Action.REFUSE: 2, Action.NUDGE: 3}
_QUIET = Heard()


class Clock:
    """Seconds since the run's start, moved on by what happens in it."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class Stop:
    """The first force_answer, escalate or halt, and the proposed call (from 1) at or after which it came."""

    action: Action
    reason: str
    step: int


@dataclass(slots=True)
class Drive:
    """What happened to an agent. ``proposed`` counts the calls up to the stop, refused ones included."""

    event: RunEnded
    proposed: int
    refused: int
    nudges: int
    stop: Stop | None


class Driver:
    """Runs one script under one run's guard; ``clock`` is the one that the run's guard was given.

    ``hire`` runs an agent that the script starts to its end and says what it brought; ``depth`` is how many
    starts there were between the task's first run and this one. ``watch`` is called after every turn.
    """

    def __init__(
        self,
        run: RunGuard,
        clock: Clock,
        rates: Rates = AS_MODELLED,
        *,
        hire: Callable[[Script], Seen] | None = None,
        depth: int = 0,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self.stop: Stop | None = None
        self.proposed = 0
        self.refused = 0
        self.nudges = 0
        self._run = run
        self._clock = clock
        self._rates = rates
        self._hire = hire
        self._depth = depth
        self._watch = watch
        self._transcript = Transcript()
        self._heard = _QUIET

    def drive(self, script: Script, **details: Any) -> Drive:
        """Let the script run to its own end or to the guard's stop; ``details`` are fields of the event."""
        outcome = self._converse(script)
        if self.stop is not None and self.stop.action is Action.FORCE_ANSWER:
            self._think(Turn())
        event = self._run.end(outcome, **details)
        # Of the refusals that end a run the last one names its own rule, the event the limit they met.
        stop = replace(self.stop, reason=event.halt_reason or self.stop.reason) if self.stop else None
        return Drive(event, self.proposed, self.refused, self.nudges, stop)

    def _converse(self, script: Script) -> Outcome | None:
        try:
            turn = next(script)
            while True:
                self._heard = _QUIET
                self._take(turn)
                self._watch()
                if self.stop is not None:
                    script.close()
                    return None
                turn = script.send(self._heard)
        except StopIteration as end:
            closed: Outcome = end.value
            return closed

    def _take(self, turn: Turn) -> None:
        self._hear(self._think(turn))
        for move in turn.moves:
            if self.stop is None:
                self.proposed += 1
                self._attempt(move)

    def _think(self, turn: Turn) -> Verdict:
        written = sum(len(str(value)) for move in turn.moves for value in move.args.values())
        usage = self._rates.real(self._transcript.turn(written))
        self._clock.seconds += usage.seconds
        return self._run.turn(usage.tokens_in, usage.tokens_out, usage.cost, answered=not turn.moves)

    def _attempt(self, move: Move) -> None:
        check = self._check(move)
        if check.action is Action.WAIT and check.not_before is not None:
            self._clock.seconds = max(self._clock.seconds, check.not_before)
            check = self._check(move)
        if check.ticket is None:
            self.refused += 1
            self._transcript.read(len(check.message))
            self._hear(check)
            return
        seen = self._hire(move.helper()) if self._hire and move.helper else move.act()
        self._clock.seconds += seen.seconds
        self._transcript.read(seen.characters)
        self._hear(
            self._run.observe(
                check.ticket,
                result=seen.result,
                error=seen.error,
                progressed=seen.progressed,
                digest=seen.digest,
            )
        )

    def _check(self, move: Move) -> Check:
        return self._run.check(move.tool, move.args, identity=move.identity, depth=self._depth)

    def _hear(self, said: Check | Verdict) -> None:
        action, reason = said.action, said.reason or ""
        if action in STOPS:
            self.stop = self.stop or Stop(action, str(reason), self.proposed)
        elif action is Action.NUDGE:
            self.nudges += 1
        if action not in STOPS and _WEIGHT[action] > _WEIGHT[self._heard.action]:
            self._heard = Heard(action, str(reason), said.message)
