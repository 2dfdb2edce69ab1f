"""The editor's form: a policy's document field by field, each with what it inherits where empty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms

from guardops.tenants.forms.fields import VisibleCharField
from policies.differences import MODES, ON_STALE, ON_TIMEOUT, Value, paths_of, said
from policies.drafts import Draft
from policies.errors import BundleTooLarge, InvalidPolicy
from policies.limits import GROUPS, LIMITS, Limit
from policies.models.policy import MAX_NOTE
from policies.publish.policies import check_over

from .fields import FlagField, InheritField, NumberField
from .ladder import FAMILIES, PREFIX, REASONS, ladder_document, ladder_fields, ladder_initial
from .tools import field_of, tool_forms

if TYPE_CHECKING:
    from django.http import QueryDict

FORM_ID = "policy"
"""The note and the end stand in a bar of their own, outside the form's element."""
LONGEST_END = timedelta(days=366)
_REVIEW = {
    "sla_s": ("review", "sla_s"),
    "on_timeout": ("review", "on_timeout"),
    "resume_steps": ("review", "resume_max", "steps"),
    "resume_seconds": ("review", "resume_max", "seconds"),
    "resume_cost": ("review", "resume_max", "cost"),
}
"""Fields of the form that stand deeper in the document."""
_PLAIN = ("mode", "allow_list", "partial_ok", "on_stale")


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit in the form: what it is, its field, and what holds where that is empty."""

    limit: Limit
    field: forms.BoundField
    in_force: str
    inherited: Value


class PolicyForm(forms.Form):
    """Everything a policy says, its note, when it ends by itself, and which version the editor was shown."""

    seen = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)
    mode = InheritField(choices=list(MODES.items()), widget=forms.RadioSelect)
    allow_list = FlagField(label="Only the tools named here may be used")
    partial_ok = FlagField(
        label="A partial answer will do", help_text="No: a run at its limit asks a person instead."
    )
    on_stale = InheritField(label="When the server can’t be asked for a day", choices=list(ON_STALE.items()))
    sla_s = NumberField(label="A person should decide within", help_text="Seconds, up to 30 days.")
    on_timeout = InheritField(label="When nobody decides in time", choices=list(ON_TIMEOUT.items()))
    resume_steps = NumberField(label="Steps")
    resume_seconds = NumberField(label="Seconds")
    resume_cost = NumberField(label="USD", money=True)
    note = VisibleCharField(
        label="Note",
        required=False,
        max_length=MAX_NOTE,
        help_text="Why; whoever looks for the cause of a stop reads it.",
        widget=forms.TextInput(attrs={"form": FORM_ID, "autocomplete": "off"}),
    )
    until = forms.DateTimeField(
        label="Ends by itself",
        required=False,
        widget=forms.DateTimeInput(
            attrs={"type": "datetime-local", "form": FORM_ID}, format="%Y-%m-%dT%H:%M"
        ),
        help_text="Then the version before holds again, also in guards that can’t reach the server.",
        error_messages={"invalid": "Write a date and a time, such as 2026-03-14 15:09."},
    )

    def __init__(
        self,
        data: QueryDict | None,
        draft: Draft,
        *,
        now: datetime,
        document: Mapping[str, Any] | None = None,
        until: datetime | None = None,
    ) -> None:
        """Show ``document``, or what is in force; both lie over what ``draft`` inherits."""
        shown = draft.document if document is None else document
        super().__init__(data, initial={"seen": draft.number, "until": until, **_initial(shown)})
        self.inherited = draft.inherited
        self.in_force = paths_of(draft.document)
        self.now = now
        for limit in LIMITS.values():
            self.fields[limit.name] = _limit_field(limit)
        self.fields |= ladder_fields(self.inherited)
        for name in (*LIMITS, *_REVIEW):
            if isinstance(field := self.fields[name], NumberField):
                field.say_inherited(self.inherited.raw(_path(name)))
        for name in ("mode", "allow_list", "partial_ok", "on_stale", "on_timeout"):
            field = self.fields[name]
            assert isinstance(field, InheritField)
            field.say_inherited(self.inherited.value(_path(name)).text)
        self.tools = tool_forms(data, shown.get("tools", {}))

    def clean_until(self) -> datetime | None:
        until: datetime | None = self.cleaned_data["until"]
        if until is None:
            return None
        if until.year > self.now.year + 2 or not self.now < until <= self.now + LONGEST_END:
            raise forms.ValidationError("The end must lie ahead, by a year at most.")
        return until

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if self.tools.is_valid():
            self._check()
        return cleaned

    def is_valid(self) -> bool:
        return super().is_valid() and self.tools.is_valid()

    def document(self) -> dict[str, Any]:
        """Return the document that was written: what is empty is not in it."""
        cleaned = self.cleaned_data
        document = {name: cleaned[name] for name in _PLAIN if cleaned.get(name) is not None}
        parts = {
            "ladder": ladder_document(cleaned),
            "limits": {name: cleaned[name] for name in LIMITS if cleaned.get(name) is not None},
            "tools": self.tools.document(),
            "review": self._review(),
        }
        return document | {name: part for name, part in parts.items() if part}

    def _review(self) -> dict[str, Any]:
        review: dict[str, Any] = {}
        for name, (_, *keys) in _REVIEW.items():
            if (value := self.cleaned_data.get(name)) is not None:
                part = review.setdefault(keys[0], {}) if len(keys) == 2 else review
                part[keys[-1]] = value
        return review

    def _check(self) -> None:
        """Ask the guard's own validator, again without each field that it finds wrong: all are said."""
        document = self.document()
        wrong: set[str] = set()
        while True:
            try:
                check_over(self.inherited.document, document)
            except InvalidPolicy as error:
                if error.field in wrong:
                    return
                wrong.add(error.field)
                self.say(error)
                document = _without(document, error.field)
            else:
                return

    def say(self, error: InvalidPolicy | BundleTooLarge) -> None:
        """Put an error of the guard's validator, or of publishing, where it belongs."""
        if isinstance(error, BundleTooLarge):
            self.add_error(None, error.message)
            return
        said = error.message.removeprefix(f"{error.field}: ")
        message = f"This {said}." if said.startswith(("must", "is")) else f"{said}."
        where = error.field
        if where.startswith("tools."):
            tool, _, key = where.removeprefix("tools.").rpartition(".")
            self._say_of_tool(tool, key, message)
            return
        if where.startswith("ladder."):
            where = where.replace("ladder.", PREFIX)
        name = {".".join(path): name for name, path in _REVIEW.items()}.get(where, where.split(".")[-1])
        self.add_error(name if name in self.fields else None, message)

    def _say_of_tool(self, tool: str, key: str, message: str) -> None:
        form = self.tools.form_of(tool)
        if form is None:
            self.add_error(None, message)
        else:
            name = field_of(key)
            form.add_error(name if name in form.fields else None, message)

    @property
    def groups(self) -> Iterator[tuple[str, list[LimitRow]]]:
        """The limits by what they are about."""
        for title, limits in GROUPS.items():
            yield title, [self._row(limit) for limit in limits]

    def _row(self, limit: Limit) -> LimitRow:
        path, inherited = ("limits", limit.name), self.inherited.value(("limits", limit.name))
        in_force = said(path, self.in_force[path]) if path in self.in_force else inherited.text
        return LimitRow(limit, self[limit.name], in_force, inherited)

    @property
    def inherited_tools(self) -> list[tuple[str, str]]:
        """Tools that are specified above, with what is said of each."""
        return list(self.inherited.tools().items())

    @property
    def families(self) -> list[forms.BoundField]:
        """The ladder by families of reasons."""
        return [self[f"{PREFIX}{code}"] for code in FAMILIES]

    @property
    def reasons(self) -> list[forms.BoundField]:
        """The ladder by single reasons."""
        return [self[f"{PREFIX}{code}"] for code in REASONS]

    @property
    def answers_reasons(self) -> bool:
        """Whether anything is said of a single reason, so that it should be seen."""
        return any(field.value() or field.errors for field in self.reasons)

    @property
    def handling(self) -> list[forms.BoundField]:
        return [self[name] for name in ("partial_ok", "on_stale", "sla_s", "on_timeout")]

    @property
    def resume(self) -> list[forms.BoundField]:
        return [self[name] for name in ("resume_steps", "resume_seconds", "resume_cost")]

    @property
    def inherited_resume(self) -> Value:
        return self.inherited.value(("review", "resume_max"))


def limits_alone(params: QueryDict) -> forms.Form:
    """Return a form of nothing but limits, validated; what is no number is left out of ``cleaned_data``."""
    form = forms.Form(params)
    form.fields = {limit.name: _limit_field(limit) for limit in LIMITS.values()}
    form.full_clean()
    return form


def _limit_field(limit: Limit) -> NumberField:
    # The help is what Django names as the field's description.
    return NumberField(label=limit.label, whole=limit.is_whole, money=limit.is_money, help_text=limit.bounds)


def _path(name: str) -> tuple[str, ...]:
    return ("limits", name) if name in LIMITS else _REVIEW.get(name, (name,))


def _initial(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document's values by the form's names."""
    review = document.get("review", {})
    most = review.get("resume_max", {})
    return {
        **document.get("limits", {}),
        **ladder_initial(document.get("ladder", {})),
        **{name: document[name] for name in _PLAIN if name in document},
        **{name: review[name] for name in ("sla_s", "on_timeout") if name in review},
        **{f"resume_{name}": value for name, value in most.items()},
    }


def _without(document: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a document without the value that stands at a dotted name; limits are named by themselves."""
    if where in document.get("limits", {}):
        where = f"limits.{where}"
    name, _, rest = where.partition(".")
    if name not in document:
        return dict(document)
    if name == "tools":
        # A tool's name may hold dots itself.
        tool = next((tool for tool in document["tools"] if rest.startswith(f"{tool}.")), "")
        tools = {key: spec for key, spec in document["tools"].items() if key != tool}
        return {**document, "tools": tools}
    kept = {key: value for key, value in document.items() if key != name}
    return {**kept, name: _without(document[name], rest)} if rest else kept
