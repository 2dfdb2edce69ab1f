"""The forms of decisions, filled in so that most can be sent as they are; and those beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django import forms

from guardops.guard.checkpoints import PendingCall
from guardops.guard.decisions import AddedBudget, BlockedForTask, DecisionAction, DecisionChange, Reconciled
from guardops.guard.events import SourceKind
from guardops.shown import from_visible, visible_text
from guardops.tenants.forms.fields import VisibleCharField
from runs.checkpoints.choice import Choice
from runs.models.checkpoints import MAX_NOTE, MAX_REASON

from .sources import can_be_blocked

if TYPE_CHECKING:
    from guardops.tenants.models import User
    from runs.checkpoints.ceiling import Ceiling
    from runs.checkpoints.errors import InvalidDecision
    from runs.checkpoints.packet import Packet

HAPPENED = "happened_"
_BUDGETS = ("steps", "seconds", "cost")


class LinesField(VisibleCharField):
    """A text of several lines; browsers end them as no other text here ends them."""

    def __init__(self, *, rows: int = 2, key: str = "", key_label: str = "", **options: Any) -> None:
        keyed = {"data-key": key, "data-key-label": key_label} if key else {}
        super().__init__(widget=forms.Textarea(attrs={"rows": rows, **keyed}), **options)

    def to_python(self, value: Any) -> str:
        return super().to_python(value.replace("\r\n", "\n") if isinstance(value, str) else value)


class DecideForm(forms.Form):
    """What every decision asks: why, what a colleague should know, and what became of uncertain writes."""

    version = forms.IntegerField(min_value=1, max_value=2**31 - 1, widget=forms.HiddenInput)
    reason = LinesField(
        label="Reason",
        max_length=MAX_REASON,
        required=False,
        help_text="Goes along with the decision, to the agent’s process too.",
    )
    note = LinesField(
        label="Note for colleagues",
        max_length=MAX_NOTE,
        required=False,
        help_text="Stays on this page, whatever becomes of the decision.",
    )

    field_order = ("answer", "input", "evidence", "blocked_sources", "reason", "note")

    def __init__(
        self,
        action: DecisionAction,
        packet: Packet,
        ceiling: Ceiling,
        *,
        data: Mapping[str, Any] | None = None,
        initial: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(data, initial=dict(initial or {}), auto_id=f"{action}-%s")
        self.action, self.packet, self.ceiling = action, packet, ceiling
        for place, call in enumerate(packet.uncertain):
            self.fields[f"{HAPPENED}{place}"] = _happened(call)

    @property
    def reconciling(self) -> Iterator[tuple[PendingCall, forms.BoundField]]:
        """The writes that a person must say something of, each with its question."""
        for place, call in enumerate(self.packet.uncertain):
            yield call, self[f"{HAPPENED}{place}"]

    @property
    def budgets(self) -> Sequence[forms.BoundField]:
        return [self[f"budget_{name}"] for name in _BUDGETS if f"budget_{name}" in self.fields]

    @property
    def is_reconciled(self) -> bool:
        """Whether every question about a write has an answer."""
        told = self.data if self.is_bound else self.initial
        return all(told.get(f"{HAPPENED}{place}") for place, _ in enumerate(self.packet.uncertain))

    def choice(self) -> Choice:
        """Return what was chosen; the form must be valid."""
        said = self.cleaned_data
        return Choice(
            action=self.action,
            reason=said["reason"],
            answer=said.get("answer", ""),
            change=self._change() if self.action is DecisionAction.RESUME else None,
            reconciled=tuple(self._reconciled()),
            note=said["note"],
        )

    def refuse(self, error: InvalidDecision) -> None:
        """Show why the choice is none, at the field to mend."""
        self.add_error(error.field if error.field in self.fields else None, error.message)

    def _change(self) -> DecisionChange:
        said = self.cleaned_data
        added = {name: said[f"budget_{name}"] for name in _BUDGETS if said.get(f"budget_{name}")}
        return DecisionChange(
            input=said["input"] or None,
            evidence=said["evidence"] or None,
            blocked_sources=tuple(source_of(value) for value in said["blocked_sources"]),
            budget=AddedBudget(**added),
        )

    def _reconciled(self) -> Iterator[Reconciled]:
        for place, call in enumerate(self.packet.uncertain):
            if happened := self.cleaned_data.get(f"{HAPPENED}{place}"):
                yield Reconciled(tool=call.tool, args_hash=call.args_hash, happened=happened == "yes")


class ResumeForm(DecideForm):
    """Asks what is different in the next attempt; offers no more than the policy lets a reviewer add."""

    input = LinesField(
        label="Tell the agent",
        max_length=MAX_REASON,
        required=False,
        help_text="The next attempt reads it as an instruction.",
    )
    evidence = LinesField(
        label="Give it evidence",
        max_length=MAX_REASON,
        required=False,
        help_text="Facts that it did not find. It reads them as data, not as an instruction.",
    )
    blocked_sources = forms.MultipleChoiceField(
        label="Block for this task", required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, action: DecisionAction, packet: Packet, ceiling: Ceiling, **options: Any) -> None:
        super().__init__(action, packet, ceiling, **options)
        offered = self.fields["blocked_sources"]
        assert isinstance(offered, forms.MultipleChoiceField)
        sources = [one for one in packet.sources if can_be_blocked(one, for_task=True)]
        offered.choices = [(value_of(one), visible_text(one.name)) for one in sources]
        for name, label, most in (
            ("steps", "More steps", ceiling.steps),
            ("seconds", "More seconds", ceiling.seconds),
            ("cost", "More USD", ceiling.cost),
        ):
            if most:
                self.fields[f"budget_{name}"] = _budget(name, label, most)


class AnswerForm(DecideForm):
    answer = LinesField(
        label="The answer",
        max_length=MAX_REASON,
        rows=5,
        error_messages={"required": "Write the answer that the agent should give."},
        help_text="The task ends with it, as completed by a person.",
    )


class NoteForm(forms.Form):
    text = LinesField(
        label="Note",
        max_length=MAX_NOTE,
        rows=3,
        key="n",
        key_label="Write a note",
        error_messages={"required": "Write something first."},
    )


class HandOverForm(forms.Form):
    """Asks to whom; offers who may decide there."""

    to = forms.ChoiceField(label="Hand over to", error_messages={"required": "Choose somebody."})

    def __init__(self, data: Mapping[str, Any] | None = None, *, people: Sequence[User]) -> None:
        super().__init__(data)
        self.people = {str(person.pk): person for person in people}
        field = self.fields["to"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(pk, visible_text(person.get_username())) for pk, person in self.people.items()]

    @property
    def chosen(self) -> User:
        return self.people[self.cleaned_data["to"]]


class UndoForm(forms.Form):
    """Names the decision that is taken back."""

    decision = forms.UUIDField()

    @property
    def decision_id(self) -> UUID:
        found: UUID = self.cleaned_data["decision"]
        return found


FORMS: dict[DecisionAction, type[DecideForm]] = {
    DecisionAction.RESUME: ResumeForm,
    DecisionAction.ANSWER: AnswerForm,
}


def form_for(
    action: DecisionAction,
    packet: Packet,
    ceiling: Ceiling,
    *,
    data: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
) -> DecideForm:
    """Return the form that asks what a decision of that kind needs."""
    return FORMS.get(action, DecideForm)(action, packet, ceiling, data=data, initial=initial)


def value_of(source: Any) -> str:
    """Return what names a source in a form."""
    return f"{SourceKind(source.kind).value}:{visible_text(source.name)}"


def source_of(value: str) -> BlockedForTask:
    """Return the source that a form's value names; it is one of those that were offered."""
    kind, _, name = value.partition(":")
    return BlockedForTask(kind=SourceKind(kind), name=from_visible(name))


def initial_of(change: DecisionChange, reason: str) -> dict[str, Any]:
    """Return what a form of a resume is filled in with."""
    added = change.budget or AddedBudget()
    return {
        "reason": reason,
        "input": change.input or "",
        "evidence": change.evidence or "",
        "blocked_sources": [value_of(source) for source in change.blocked_sources],
        "budget_steps": added.steps or None,
        "budget_seconds": added.seconds or None,
        "budget_cost": _plain(added.cost) if added.cost else None,
    }


def reconciled_as(told: Sequence[Reconciled], packet: Packet) -> dict[str, str]:
    """Return the answers on writes of unknown outcome as a form has them."""
    happened = {(call.tool, call.args_hash): call.happened for call in told}
    return {
        f"{HAPPENED}{place}": "yes" if happened[call.tool, call.args_hash] else "no"
        for place, call in enumerate(packet.uncertain)
        if (call.tool, call.args_hash) in happened
    }


def _happened(call: PendingCall) -> forms.ChoiceField:
    return forms.ChoiceField(
        choices=[("yes", "Yes, it happened"), ("no", "No, it did not happen")],
        widget=forms.RadioSelect,
        required=False,  # a stop needs no answer; `checked` asks for it otherwise
    )


def _plain(amount: Decimal) -> str:
    """Return an amount without noughts that say nothing: ``0.6``, ``10``."""
    return f"{amount.normalize():f}"


def _budget(name: str, label: str, most: int | Decimal) -> forms.Field:
    told = f"At most {_plain(most) if isinstance(most, Decimal) else f'{most:,}'}"
    errors = {"max_value": f"{told} may be added here. The policy says so."}
    options: dict[str, Any] = {"label": label, "required": False, "min_value": 0, "max_value": most}
    if name == "cost":
        return forms.DecimalField(
            **options, max_digits=14, decimal_places=6, error_messages=errors, help_text=f"{told}."
        )
    return forms.IntegerField(**options, error_messages=errors, help_text=f"{told}.")
