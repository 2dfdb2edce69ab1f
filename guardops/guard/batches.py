"""The calls of one model turn, judged as one batch: which may run, and what the others are told."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from guardops.guard.answers import Check
from guardops.guard.calls import (
    STOPS,
    Landed,
    Progress,
    Stopped,
    ToolCall,
    ToolResult,
    carry_out,
    checked,
    refused,
)
from guardops.guard.state import BatchId, Ticket

if TYPE_CHECKING:
    from guardops.guard.agent_run import AgentRun

_numbers = count(1)


class Batch:
    """The calls of one model turn on their way: which may run, and what the others are told."""

    def __init__(self, run: AgentRun, calls: list[ToolCall]) -> None:
        self.id: BatchId = f"turn:{next(_numbers)}"
        self.calls = [ToolCall(*call) for call in calls]
        self._run = run
        self._told: dict[int, ToolResult] = {}
        self._tickets: dict[int, Ticket] = {}
        self._leaders: dict[int, int] = {}
        self._stop: Stopped | None = None

    def asks(self, place: int) -> bool:
        """Whether the guard is asked about a call: not once the run is stopped."""
        if self._stop is None and (told := self._run.without_asking()) is not None:
            self._told[place] = told
        return self._stop is None and place not in self._told

    def note(self, place: int, check: Check) -> None:
        """Take the guard's answer to a call."""
        if check.ticket is not None:
            self._tickets[place] = check.ticket
            return
        if check.leader is not None:
            self._leaders[place] = check.leader
        try:
            self._told[place] = refused(check, self.calls[place].tool)
        except Stopped as stop:
            self._stop = stop

    def granted(self) -> list[tuple[Ticket, ToolCall]]:
        """Return the calls to be made. Raises :class:`Stopped`, and makes none, where the run is over."""
        if self._stop is not None:
            for ticket in self._tickets.values():
                self._run.withdraw(ticket)
            raise self._stop
        return [(ticket, self.calls[place]) for place, ticket in self._tickets.items()]

    def results(self, landed: list[Landed]) -> list[ToolResult]:
        """Return every call's result in order, an equal read's where a call was left out as its twin."""
        stops = [one for one in landed if one.verdict.action in STOPS]
        for one in stops:
            checked(one)
        by_number = {
            ticket.number: one.result for ticket, one in zip(self._tickets.values(), landed, strict=True)
        }
        made = dict(zip(self._tickets, (one.result for one in landed), strict=True))
        shared = {place: by_number[leader] for place, leader in self._leaders.items() if leader in by_number}
        found = {**self._told, **made, **shared}
        return [found[place] for place in range(len(self.calls))]


def task_of(run: AgentRun, ticket: Ticket, call: ToolCall, progressed: Progress) -> Callable[[], Landed]:
    """Return the making of a call, to be run in a thread."""
    return lambda: carry_out(run, ticket, call.args, call.function, progressed)
