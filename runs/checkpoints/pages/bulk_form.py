"""What a decision on several checkpoints asks: why, and for a resume what is different from now on."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms

from guardops.guard.decisions import AddedBudget, DecisionAction, DecisionChange
from runs.checkpoints.choice import Choice
from runs.models.checkpoints import MAX_REASON

from .forms import LinesField

if TYPE_CHECKING:
    from django.http import QueryDict

    from runs.checkpoints.ceiling import Ceiling

_BUDGETS = (("steps", "More steps"), ("seconds", "More seconds"), ("cost", "More USD"))


class BulkForm(forms.Form):
    """Offers no more than each of the checkpoints' policies lets a reviewer add."""

    reason = LinesField(
        label="Reason", max_length=MAX_REASON, required=False, help_text="Goes along with every one of them."
    )

    def __init__(self, action: DecisionAction, least: Ceiling, data: QueryDict | None = None) -> None:
        super().__init__(data)
        self.action = action
        if action is not DecisionAction.RESUME:
            return
        self.fields["reason"].required = True
        self.fields["reason"].error_messages["required"] = "Say why going on makes sense now."
        self.fields["input"] = LinesField(
            label="Tell the agents",
            max_length=MAX_REASON,
            required=False,
            help_text="Every next attempt reads it as an instruction.",
        )
        for name, label in _BUDGETS:
            if most := getattr(least, name):
                self.fields[f"budget_{name}"] = _budget(name, label, most)
        self.order_fields(["input", *(f"budget_{name}" for name, _ in _BUDGETS), "reason"])

    @property
    def budgets(self) -> list[forms.BoundField]:
        return [self[f"budget_{name}"] for name, _ in _BUDGETS if f"budget_{name}" in self.fields]

    def clean(self) -> dict[str, Any]:
        said = self.cleaned_data
        if self.action is DecisionAction.RESUME and not self.errors and not any(_changes(said)):
            self.add_error(None, "Change something: without a change the agents would only loop again.")
        return said

    def choice(self) -> Choice:
        """Return what was chosen; the form must be valid."""
        said = self.cleaned_data
        change = None
        if self.action is DecisionAction.RESUME:
            steps, seconds, cost = (said.get(f"budget_{name}") or 0 for name, _ in _BUDGETS)
            added = AddedBudget(steps=steps, seconds=seconds, cost=Decimal(cost))
            change = DecisionChange(input=said["input"] or None, budget=added)
        return Choice(self.action, said["reason"], change=change)


def _changes(said: dict[str, Any]) -> list[Any]:
    return [said.get("input"), *(said.get(f"budget_{name}") for name, _ in _BUDGETS)]


def _budget(name: str, label: str, most: Any) -> forms.Field:
    told = f"At most {most:f}" if name == "cost" else f"At most {most:,}"
    options: dict[str, Any] = {
        "label": label,
        "required": False,
        "min_value": 0,
        "max_value": most,
        "help_text": f"{told} for each.",
        "error_messages": {"max_value": f"{told} may be added to each. Their policies say so."},
    }
    if name == "cost":
        return forms.DecimalField(**options, max_digits=14, decimal_places=6)
    return forms.IntegerField(**options)
