"""The parts of a scripted agent: what it does in a turn, what a tool call brings, and how it closes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from guardops.guard.events import Action, Outcome

TOOL_S = 0.4
"""Seconds a tool call takes where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a tool call brought: a result or an error, whether the task got on, the seconds it took."""

    result: object = None
    error: object = None
    progressed: bool | None = None
    seconds: float = TOOL_S
    characters: int = 0
    digest: str | None = None
    """The result's identity where only that was recorded."""


@dataclass(frozen=True, slots=True)
class Move:
    """A tool call that the agent proposes; ``act`` runs it, ``identity`` stands for masked arguments.

    A call that starts an agent has that one's script in ``helper`` instead of something to run.
    """

    tool: str
    args: dict[str, object]
    act: Callable[[], Seen] = Seen
    identity: str | None = None
    helper: Callable[[], Script] | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One model call and the tool calls it leads to; without any, it closes the run with an answer."""

    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Heard:
    """What the guard said about the last turn: the action that weighs most, its reason and its message."""

    action: Action = Action.CONTINUE
    reason: str = ""
    message: str = ""


Script = Generator[Turn, Heard, Outcome]
"""An agent: yields turns, hears what the guard said about each, returns how it ends if nobody stops it."""


def calls(
    tool: str,
    args: dict[str, object],
    result: object = None,
    *,
    error: object = None,
    progressed: bool | None = None,
    seconds: float = TOOL_S,
) -> Turn:
    """Return a turn with one tool call whose outcome is known beforehand."""
    seen = Seen(result, error, progressed, seconds, len(str(error if result is None else result)))
    return Turn((Move(tool, args, lambda: seen),))
