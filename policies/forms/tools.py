"""What a policy says of single tools: one form a tool, with rows to spare for new ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django import forms
from django.forms.formsets import TOTAL_FORM_COUNT

from guardops.guard.fields import PolicyError
from guardops.guard.policy import Kind, Poll
from guardops.tenants.forms.fields import VisibleCharField
from policies.differences import SIDE_EFFECTS

from .fields import MAX_NAME, ErrorMapField, FlagField, InheritField, NamesField, NumberField, ValuesField

if TYPE_CHECKING:
    from django.http import QueryDict

SPARE_ROWS = 2
MAX_TOOLS = 150
PREFIX = "tools"
_KINDS = {
    Kind.CALL.value: "Does the work itself",
    Kind.DELEGATE.value: "Hands the work over",
    Kind.SPAWN.value: "Starts another agent",
}
_POLL = {
    "interval": "poll_interval",
    "max_attempts": "poll_attempts",
    "max_seconds": "poll_seconds",
    "terminal": "poll_terminal",
}
_OF_POLL = frozenset(_POLL.values())
_RENAMED = {"class": "side_effect", "fields": "takes", "errors": "error_map"}
"""What Django's forms have other uses for."""


class ToolForm(forms.Form):
    """One tool; what is left empty is inherited, and the tool is named all the same."""

    name = VisibleCharField(label="Tool", max_length=MAX_NAME, required=False)
    side_effect = InheritField(label="What it does", choices=list(SIDE_EFFECTS.items()))
    kind = InheritField(label="How it works", choices=list(_KINDS.items()))
    forbidden = FlagField(label="Forbidden")
    approval = FlagField(label="Needs a person’s approval")
    idempotent = FlagField(label="May be repeated after an unknown outcome")
    external = FlagField(label="What it brings proves no progress")
    max_repeats = NumberField(label="Same call, same result")
    max_empty = NumberField(label="Empty results of a call")
    max_retries = NumberField(label="Retries of a call")
    volatile = NamesField(label="Arguments that don’t count", help_text="Such as trace_id, page_token.")
    key = NamesField(label="Only these make a call the same", help_text="Empty: all but those above.")
    takes = NamesField(label="Only these may be given", help_text="A call with any other is refused.")
    credentials = NamesField(label="Credentials", help_text="Never hashed, never sent.")
    strip = NamesField(label="Spaces around don’t count in")
    casefold = NamesField(label="Case doesn’t count in")
    sets = NamesField(label="Order doesn’t count in")
    null_is_omitted = FlagField(label="Null means left out")
    empty = ValuesField(label="Results that count as empty", help_text="One a line, JSON or plain text.")
    error_map = ErrorMapField(label="What error codes mean", help_text="One a line: E42 = rate_limit.")
    poll_interval = NumberField(label="Seconds between polls", whole=False)
    poll_attempts = NumberField(label="Most polls")
    poll_seconds = NumberField(label="Most seconds", whole=False)
    poll_terminal = NamesField(label="States that end it", help_text="Such as done, failed.")

    @property
    def is_removed(self) -> bool:
        return bool(self.cleaned_data.get("DELETE"))

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        filled = [name for name, value in cleaned.items() if value not in (None, "", False)]
        if not cleaned.get("name") and "name" not in self.errors and set(filled) - {"name", "DELETE"}:
            self.add_error("name", "Name the tool that this is about, or clear its fields.")
        polled = {name for name in _OF_POLL if cleaned.get(name) is not None}
        missing = {"poll_interval", "poll_attempts"} - polled
        for name in missing - set(self.errors) if polled else ():
            self.add_error(name, "A polling contract needs this.")
        if polled and not missing:
            self._check_poll()
        return cleaned

    def _check_poll(self) -> None:
        """Ask the guard itself; its errors of contracts name no tool."""
        numbers = {key: self.cleaned_data.get(name) for key, name in _POLL.items() if key != "terminal"}
        try:
            Poll(**{key: value for key, value in numbers.items() if value is not None})
        except PolicyError as error:
            self.add_error(field_of(error.field), f"This {str(error).removeprefix(f'{error.field}: ')}.")

    def spec(self) -> dict[str, Any]:
        """Return the tool as documents have it."""
        values = {name: value for name, value in self.cleaned_data.items() if value is not None}
        poll = {key: values[name] for key, name in _POLL.items() if name in values}
        spec = {
            key: values[name]
            for name in self.fields
            if name in values and name not in {"name", "DELETE", *_OF_POLL}
            for key in [_document_key(name)]
        }
        return spec | ({"poll": poll} if poll else {})

    @property
    def main(self) -> list[forms.BoundField]:
        """What most tools need."""
        return self._bound("side_effect", "kind", "forbidden", "approval", "idempotent", "external")

    @property
    def caps(self) -> list[forms.BoundField]:
        return self._bound("max_repeats", "max_empty", "max_retries")

    @property
    def polling(self) -> list[forms.BoundField]:
        return self._bound(*_POLL.values())

    @property
    def identity(self) -> list[forms.BoundField]:
        """What makes two calls the same, and what results mean."""
        names = ("volatile", "key", "takes", "credentials", "strip", "casefold", "sets")
        return self._bound(*names, "null_is_omitted", "empty", "error_map")

    def _bound(self, *names: str) -> list[forms.BoundField]:
        return [self[name] for name in names]


class ToolForms(forms.BaseFormSet):  # type: ignore[type-arg]
    """All tools of a policy, with rows to spare. A name stands once."""

    form = ToolForm
    renderer = None
    extra, min_num, max_num, absolute_max = SPARE_ROWS, 0, MAX_TOOLS, MAX_TOOLS + SPARE_ROWS
    can_order, can_delete, can_delete_extra = False, True, True
    validate_min, validate_max = False, True

    def clean(self) -> None:
        names = set()
        for form in self.forms:
            name = "" if form.is_removed else form.cleaned_data.get("name", "")
            if name in names:
                form.add_error("name", "There is this tool already.")
            names |= {name} - {""}

    def document(self) -> dict[str, Any]:
        """Return the tools as documents have them."""
        return {
            form.cleaned_data["name"]: form.spec()
            for form in self.forms
            if form.cleaned_data.get("name") and not form.is_removed
        }

    def form_of(self, tool: str) -> ToolForm | None:
        """Return the form that a tool was written in."""
        return next((form for form in self.forms if form.cleaned_data.get("name") == tool), None)


def tool_forms(data: QueryDict | None, tools: Mapping[str, Mapping[str, Any]]) -> ToolForms:
    """Return the forms of these tools, or of what was sent."""
    return ToolForms(
        data,
        prefix=PREFIX,
        # What was sent stands by itself: beside tools saved meanwhile it could pass for untouched.
        initial=None if data else [_initial(tool, spec) for tool, spec in sorted(tools.items())],
        error_messages={"missing_management_form": "The list of tools was cut off; open the policy again."},
    )


def with_more_rows(data: QueryDict) -> QueryDict:
    """Return what was sent with two more rows for tools."""
    more = data.copy()
    total = f"{PREFIX}-{TOTAL_FORM_COUNT}"
    sent = more.get(total, "")
    rows = int(sent) if sent.isascii() and sent.isdigit() and len(sent) < 5 else 0
    more[total] = str(min(rows, MAX_TOOLS) + SPARE_ROWS)
    return more


def field_of(key: str) -> str:
    """Return the form's name for a key of a tool's document, such as ``poll.interval``."""
    if key.startswith("poll."):
        return _POLL.get(key.removeprefix("poll."), "poll_interval")
    return _RENAMED.get(key.partition(".")[0], key.partition(".")[0])


def _document_key(name: str) -> str:
    return next((key for key, field in _RENAMED.items() if field == name), name)


def _initial(tool: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    poll = spec.get("poll") or {}
    values = {field_of(key): value for key, value in spec.items() if key != "poll"}
    return {"name": tool, **values, **{_POLL[key]: value for key, value in poll.items()}}
