"""The response ladder of one run: nudge, force an answer, escalate, halt."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from guardops.guard.bundle import StopOrder
from guardops.guard.events import Action, Intervention, Mode, WouldHalt
from guardops.guard.policy import Policy
from guardops.guard.reasons import Family, Reason, family_of
from guardops.guard.rungs import first_rung, rung
from guardops.guard.stores import RootState

HARD_FAMILIES = frozenset({Family.BUDGET, Family.CONTROL})
"""What stays enforced in shadow and with the guard off, ``forbidden_tool`` and approvals left out."""

_SOFT_CONTROLS = frozenset(
    {Reason.FORBIDDEN_TOOL, Reason.APPROVAL_REQUIRED, Reason.REFUSAL_LIMIT, Reason.GUARD_ERROR}
)


def always_enforced(reason: Reason) -> bool:
    """Say whether a reason is acted upon in every mode: budgets, and orders that people gave."""
    return family_of(reason) in HARD_FAMILIES and reason not in _SOFT_CONTROLS


class Ladder:
    """Where one run stands on the ladder, and everything the guard did to it."""

    __slots__ = (
        "chosen",
        "first_reason",
        "interventions",
        "max_refusals",
        "mode",
        "order",
        "partial_ok",
        "reason",
        "root",
        "run_id",
        "standing",
        "would_halt",
    )

    def __init__(self, policy: Policy, root: RootState, run_id: str) -> None:
        self.hold_to(policy)
        self.root = root
        self.run_id = run_id
        self.interventions: list[Intervention] = []
        self.first_reason: str | None = None
        self.would_halt: WouldHalt | None = None
        self.standing: Action | None = None
        """The rung that ended the run's ordinary work: force_answer, escalate or halt."""
        self.reason: str | None = None
        self.order: StopOrder | None = None
        """The published order that stopped the run, if that is why."""

    def hold_to(self, policy: Policy) -> None:
        """Answer by this policy from here on."""
        self.mode = policy.mode
        self.partial_ok = policy.partial_ok
        self.max_refusals = policy.limits.max_refusals
        self.chosen = policy.ladder

    def nudges(self, reason: Reason) -> bool:
        """Say whether the ladder's answer to a reason starts with a nudge."""
        return first_rung(reason, self.chosen) is Action.NUDGE

    def enforces(self, reason: Reason) -> bool:
        """Say whether the policy's mode acts upon a reason."""
        return self.mode is Mode.ENFORCE or always_enforced(reason)

    def refuse(
        self, reason: Reason, step: int, refusals: int, *, again: bool, gently: bool = False
    ) -> Action:
        """Answer a refused call, the run's ``refusals``-th, at ``step`` (1-based, of the proposed calls).

        A refusal costs nothing and is a warning in itself, and agents mostly get over it. After the one nudge
        a call is therefore just refused, until ``max_refusals`` ends the run, where it has failed or found
        nothing, or where it is refused for repetition for the first time (``again`` is false). ``gently``
        it is never more than refused before that.
        """
        if (gently or self.nudges(reason)) and refusals >= self.max_refusals:
            return self.climb(Reason.REFUSAL_LIMIT, step)
        warned = reason is Reason.TOOL_NO_PROGRESS or (reason is Reason.REPEATED_CALL and not again)
        if gently or (warned and self.root.nudged):
            self._note(Action.REFUSE, reason.value, step)
            return Action.REFUSE
        return self.climb(reason, step)

    def climb(self, reason: Reason, step: int) -> Action:
        """Answer a trip at ``step`` and remember the answer.

        ``continue`` where the mode only watches. A run that has reached a standing rung stays on it.
        """
        if not self.enforces(reason):
            if self.mode is Mode.SHADOW and self.would_halt is None:
                self.would_halt = WouldHalt(reason=reason.value, step=step)
            return Action.CONTINUE
        if self.standing is not None:
            return self.standing
        action = rung(reason, nudged=self.root.nudged, partial_ok=self.partial_ok, chosen=self.chosen)
        if action is Action.NUDGE:
            self.root.nudge()
            self._note(action, reason.value, step)
        else:
            self._stand(action, reason.value, step)
        return action

    def halt(self, step: int, reason: str | None = None) -> None:
        """Take the last rung, for the reason the run already stands for where it has one."""
        if self.standing is not Action.HALT:
            self._stand(Action.HALT, self.reason or reason or "", step)

    def escalate(self, step: int, reason: Reason) -> None:
        """Hand the run over to a person, by the application's own wish; a halt stays one."""
        if self.standing is not Action.HALT:
            self._stand(Action.ESCALATE, reason.value, step)

    def only_answer(self, reason: str) -> None:
        """Begin where nothing but an answer is left to give; the reason is the earlier attempt's."""
        if self.standing is None:
            self._stand(Action.FORCE_ANSWER, reason, 0)

    def obey(self, order: StopOrder, step: int) -> None:
        """Halt by a person's order, whatever the run stands for: what the order names, and no more."""
        if self.standing is not Action.HALT:
            self.order = order
            self._stand(Action.HALT, Reason.OPERATOR_STOP.value, step, root=order.ends_the_root)

    def stand_aside(self, step: int, reason: Reason) -> None:
        """Halt this run alone: its root, and a run of the same id elsewhere, go on."""
        self.standing, self.reason = Action.HALT, reason.value
        self._note(Action.HALT, reason.value, step)

    @property
    def said(self) -> str:
        """What whoever stopped the run said of it; empty where nobody did."""
        if self.order is None or not self.order.reason:
            return ""
        return f"The run was stopped by a person: {self.order.reason}"

    @property
    def stops(self) -> bool:
        """Whether the run stands where only a resume grant lets it start again."""
        return self.standing in (Action.HALT, Action.ESCALATE)

    def _stand(self, action: Action, reason: str, step: int, *, root: bool = True) -> None:
        self.standing, self.reason = action, reason
        self._note(action, reason, step)
        if action is Action.FORCE_ANSWER:
            return
        self.root.stop_run(self.run_id)
        if action is Action.HALT and root:
            self.root.halt(reason)

    def _note(self, action: Action, reason: str, step: int) -> None:
        self.first_reason = self.first_reason or reason
        self.interventions.append(Intervention(step=step, action=action, reason=reason))


def message(reason: Reason, tool: str, count: int = 0, detail: str = "") -> str:
    """Return what the agent is told: the pattern by its name, never a tool's own text."""
    text = _MESSAGES.get(reason)
    if text is None:
        text = _LIMIT if first_rung(reason) is Action.FORCE_ANSWER else _STOP
    return text.format(reason=reason.value, tool=tool, count=count, detail=detail)


_LIMIT = "A limit of the run is reached ({reason}). Answer with what you have."
_STOP = "The run was stopped ({reason})."
_TIME_IS_UP = (
    "The time is up ({reason}), so nothing more is waited for; what is under way may still finish. "
    "Answer with what you have."
)

_MESSAGES: Mapping[Reason, str] = MappingProxyType(
    {
        Reason.REPEATED_CALL: "{tool} was called {count} times with the same arguments and the same result. "
        "Use what you have, or ask something else.",
        Reason.TOOL_NO_PROGRESS: "{tool} has already failed or found nothing with exactly these arguments. "
        "Change the arguments or take another way.",
        Reason.DUPLICATE_IN_FLIGHT: "{tool} is already running with these arguments.",
        Reason.DUPLICATE_SIDE_EFFECT: "{tool} has already been done with exactly these arguments; "
        "it is not done twice.",
        Reason.CYCLE_PERIOD_2: "The last calls repeat in turns of 2 and bring the same results.",
        Reason.CYCLE_PERIOD_3: "The last calls repeat in turns of 3 and bring the same results.",
        Reason.CYCLE_PERIOD_4: "The last calls repeat in turns of 4 or more and bring the same results.",
        Reason.NO_PROGRESS: "The last {count} steps brought the task no further. Answer with what you have, "
        "or take another way.",
        Reason.ERROR_STREAK: "{tool} failed {count} times in a row with different arguments.",
        Reason.POLL_EXHAUSTED: "{tool} was asked as often as its contract allows and has not finished.",
        Reason.TOOL_RETRY_EXHAUSTED: "{tool} keeps failing and its retries are used up.",
        Reason.SOURCE_CAP: "{detail} was read as often as one source may be. Use other sources.",
        Reason.LISTING_CAP: "{detail} was paged through as far as a listing may be. Use what you have.",
        Reason.APPROVAL_REQUIRED: "{tool} needs a person's approval for exactly these arguments.",
        Reason.FORBIDDEN_TOOL: "{tool} may not be used in this run.",
        Reason.BLOCKED_SOURCE: "{detail} is blocked.",
        Reason.UNCERTAIN_WRITE: "Nobody knows whether an earlier call of {tool} with these arguments took "
        "effect; a person must find out first.",
        Reason.WALL_CLOCK: _TIME_IS_UP,
        Reason.DEADLINE: _TIME_IS_UP,
        Reason.REFUSAL_LIMIT: "Too many calls were refused. Answer with what you have.",
    }
)
