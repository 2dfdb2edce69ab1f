"""A tool call as an agent's loop makes it: what to call goes in, what to tell the model comes out."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from guardops.guard.answers import Check, Verdict
from guardops.guard.events import Action
from guardops.guard.reasons import Reason
from guardops.guard.state import Ticket

if TYPE_CHECKING:
    from guardops.guard.guarded_run import RunGuard

STOPS = frozenset({Action.ESCALATE, Action.HALT})
Progress = bool | Callable[[Any], bool | None] | None
"""The application's word on whether a call brought the task further, or how to tell from its result."""

_MAX_THREADS = 8
_log = logging.getLogger("guardops.guard")


class Stopped(Exception):
    """The guard ended the run: the loop is over, and so is the work of the same root.

    ``action`` is escalate (a person decides) or halt, ``reason`` why.
    """

    code = "stopped"

    def __init__(self, action: Action, reason: Reason | None, message: str = "") -> None:
        super().__init__(message or f"The run was stopped ({reason or 'stopped'}).")
        self.action = action
        self.reason = reason


class ToolCall(NamedTuple):
    """One call of a batch; ``function`` is called with ``args`` by name."""

    tool: str
    args: Mapping[str, Any]
    function: Callable[..., Any]


class ToolResult(Struct, frozen=True):
    """What came of a call: ``content`` is the text for the model, the guard's word on it included."""

    content: str
    value: Any = None
    """What the tool returned; None where it failed or was not run."""
    error: BaseException | None = None
    """What the tool raised."""
    reason: Reason | None = None
    """Why the guard refused the call, or what it warns of."""
    is_error: bool = False

    def __str__(self) -> str:
        return self.content


class Landed(NamedTuple):
    """A call that ran: what the model is told, and what the guard says."""

    result: ToolResult
    verdict: Verdict


def refused(check: Check, tool: str) -> ToolResult:
    """Return what the model is told instead of a result. Raises :class:`Stopped` where the run is over."""
    if check.action in STOPS:
        raise Stopped(check.action, check.reason, check.message)
    if check.action is Action.WAIT:
        text = f"{tool} may not be called again yet, and the run has no time to wait for it."
    else:
        text = check.message or answer_now(check.reason)
    return ToolResult(text, reason=check.reason, is_error=True)


def answer_now(reason: Reason | None) -> str:
    """Return what the model is told that still asks for tools where it has to answer."""
    return f"No more tools may be called ({reason or 'stopped'}). Answer with what you have."


def checked(landed: Landed) -> ToolResult:
    """Return a call's result. Raises :class:`Stopped` where the run is over with it."""
    verdict = landed.verdict
    if verdict.action in STOPS:
        raise Stopped(verdict.action, verdict.reason, verdict.message)
    return landed.result


def carry_out(
    run: RunGuard, ticket: Ticket, args: Mapping[str, Any], function: Callable[..., Any], progressed: Progress
) -> Landed:
    """Call a tool and report what came of it. An interrupt goes through, and leaves a write in flight."""
    try:
        value = function(**args)
    except Exception as error:
        return _failed(run, ticket, error)
    except BaseException:
        _abandon(run, ticket)
        raise
    return _returned(run, ticket, value, progressed)


async def carry_out_async(
    run: RunGuard, ticket: Ticket, args: Mapping[str, Any], function: Callable[..., Any], progressed: Progress
) -> Landed:
    """Do the same for a coroutine function, or for a plain one in a thread.

    Cancelling stops the waiting, not the thread: what it brings is still reported, by itself.
    """
    if not is_async(function):
        return await asyncio.to_thread(carry_out, run, ticket, args, function, progressed)
    try:
        value = await function(**args)
    except Exception as error:
        return _failed(run, ticket, error)
    except BaseException:
        _abandon(run, ticket)
        raise
    return _returned(run, ticket, value, progressed)


def in_threads(tasks: Sequence[Callable[[], Landed]]) -> list[Landed]:
    """Run tasks side by side and return what they brought, in their order."""
    if len(tasks) < 2:
        return [task() for task in tasks]
    with ThreadPoolExecutor(min(len(tasks), _MAX_THREADS), thread_name_prefix="guardops-call") as pool:
        futures = [pool.submit(contextvars.copy_context().run, task) for task in tasks]
        return [future.result() for future in futures]


def is_async(function: Callable[..., Any]) -> bool:
    """Say whether calling a function gives something to wait for."""
    while isinstance(function, partial):
        function = function.func
    call = getattr(type(function), "__call__", None)  # noqa: B004 - an object whose call is a coroutine
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _returned(run: RunGuard, ticket: Ticket, value: Any, progressed: Progress) -> Landed:
    if inspect.isawaitable(value):
        _close(value)
        return _failed(run, ticket, TypeError(f"{ticket.tool} is asynchronous: use acall"))
    verdict = run.observe(ticket, result=value, progressed=_progress(progressed, value))
    content = "\n\n".join(part for part in (as_text(value), verdict.message) if part)
    return Landed(ToolResult(content, value=value, reason=verdict.reason), verdict)


def _failed(run: RunGuard, ticket: Ticket, error: Exception) -> Landed:
    verdict = run.observe(ticket, error=error)
    said = f"{ticket.tool} failed: {type(error).__name__}: {error}".rstrip(": ")
    content = "\n\n".join(part for part in (said, verdict.message) if part)
    return Landed(ToolResult(content, error=error, reason=verdict.reason, is_error=True), verdict)


def _abandon(run: RunGuard, ticket: Ticket) -> None:
    """A call was cut short: a read timed out, but of a write nobody knows, so it stays in flight."""
    if not ticket.spec.writes:
        run.observe(ticket, error=TimeoutError())


def _progress(progressed: Progress, value: Any) -> bool | None:
    """Return the application's word; where it can't tell, the guard goes by what is new."""
    if not callable(progressed):
        return progressed
    try:
        return progressed(value)
    except Exception:
        _log.exception("Whether a call brought the task further could not be told.")
        return None


def as_text(value: object) -> str:
    """Return a tool's result as the model reads it: text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _close(value: Awaitable[Any]) -> None:
    if inspect.iscoroutine(value):
        value.close()
