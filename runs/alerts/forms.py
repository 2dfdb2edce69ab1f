"""What people fill in about incidents, silences and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms

from guardops.shown import visible_text
from guardops.tenants.forms.fields import VisibleCharField
from guardops.tenants.models import Tenant, User
from runs.choices import IncidentState, RuleKind, Severity
from runs.models.alerts import MAX_NOTE, MAX_REASON, MAX_SUBJECT

from .access import INSTALLATION, Place
from .rules import Setting, Spec, written
from .silences import InvalidSilence, silence

if TYPE_CHECKING:
    from django.http import QueryDict

    from runs.models import Silence

    from .querysets import IncidentQuerySet

MAX_VERSION = 2**31 - 1
UNRESOLVED, ANY = "", "any"
STATES = [(UNRESOLVED, "Not over"), *IncidentState.choices, (ANY, "Any")]
LASTING = {
    "1h": ("An hour", timedelta(hours=1)),
    "4h": ("Four hours", timedelta(hours=4)),
    "1d": ("A day", timedelta(days=1)),
    "7d": ("A week", timedelta(days=7)),
    "30d": ("30 days", timedelta(days=30)),
}
_FIELD_OF = {"no_reason": "reason", "over": "lasting", "too_long": "lasting"}


class IncidentFilterForm(forms.Form):
    """Which incidents to list. A tenant of others is refused like one that is made up."""

    state = forms.ChoiceField(choices=STATES, required=False)
    tenant = forms.ChoiceField(required=False)
    rule = forms.ChoiceField(choices=[("", "All"), *RuleKind.choices], required=False)
    severity = forms.ChoiceField(choices=[("", "All"), *Severity.choices], required=False)
    mine = forms.ChoiceField(label="Whose", choices=[("", "Everybody's"), ("1", "Mine")], required=False)
    page = forms.IntegerField(min_value=1, max_value=MAX_VERSION, required=False)

    def __init__(self, data: QueryDict, *, places: Mapping[str, Place], **options: Any) -> None:
        super().__init__(data, **options)
        self.places = places
        _offer(self.fields["tenant"], places, "All")

    @property
    def picks(self) -> list[forms.BoundField]:
        """The fields that narrow the list; the place only where there are several."""
        names = ("state", "tenant", "rule", "severity", "mine")
        return [self[name] for name in names if name != "tenant" or len(self.places) > 1]

    @property
    def narrows(self) -> bool:
        return any(self.cleaned_data.get(name) for name in ("state", "tenant", "rule", "severity", "mine"))

    def narrow(self, incidents: IncidentQuerySet, user: User) -> IncidentQuerySet:
        """Return those of the incidents that are asked for."""
        asked = self.cleaned_data
        if asked["state"] == UNRESOLVED:
            incidents = incidents.unresolved()
        elif asked["state"] != ANY:
            incidents = incidents.among([asked["state"]])
        if asked["tenant"]:
            place = self.places[asked["tenant"]]
            incidents = incidents.for_tenant(place.pk if place else None)
        if asked["rule"]:
            incidents = incidents.of_rule(asked["rule"])
        if asked["severity"]:
            incidents = incidents.as_severe_as(asked["severity"])
        return incidents.looked_after_by(user) if asked["mine"] else incidents


class ActForm(forms.Form):
    """What every action says: the version that its author saw, and maybe why."""

    version = forms.IntegerField(min_value=1, max_value=MAX_VERSION, widget=forms.HiddenInput)
    note = VisibleCharField(
        max_length=MAX_NOTE, required=False, widget=forms.Textarea(attrs={"rows": 2}), label="Note"
    )


class AssignForm(ActForm):
    """Whom it is given to; nobody where that is left open."""

    to = forms.ChoiceField(label="Give it to", required=False)

    def __init__(self, *args: Any, people: Sequence[User], **options: Any) -> None:
        super().__init__(*args, **options)
        self._people = {str(person.pk): person for person in people}
        field = self.fields["to"]
        assert isinstance(field, forms.ChoiceField)
        named = [(key, visible_text(person.get_username())) for key, person in self._people.items()]
        field.choices = [("", "Nobody"), *named]

    @property
    def person(self) -> User | None:
        return self._people.get(self.cleaned_data["to"])


class SilenceForm(forms.Form):
    """What nobody is to be told of, for how long, and why."""

    tenant = forms.ChoiceField(label="Of", error_messages={"required": "Choose the tenant."})
    rule = forms.ChoiceField(choices=[("", "Every rule"), *RuleKind.choices], required=False)
    subject = VisibleCharField(
        label="Only about",
        max_length=MAX_SUBJECT,
        required=False,
        strip=False,
        help_text="The job type, source or whatever else the rule tells apart, exactly as its incidents name"
        " it. Empty for everything.",
    )
    lasting = forms.ChoiceField(
        label="For", choices=[(key, label) for key, (label, _) in LASTING.items()], initial="4h"
    )
    reason = VisibleCharField(
        max_length=MAX_REASON, error_messages={"required": "Say why: whoever misses a page will ask."}
    )

    def __init__(self, *args: Any, places: Mapping[str, Place], **options: Any) -> None:
        super().__init__(*args, **options)
        self._places = places
        _offer(self.fields["tenant"], places)

    def save(self, actor: User, now: datetime) -> Silence | None:
        """Make the silence; None, with the error at its field, where it makes no sense."""
        asked = self.cleaned_data
        try:
            return silence(
                self._places[asked["tenant"]],
                rule=RuleKind(asked["rule"]) if asked["rule"] else None,
                subject=asked["subject"],
                until=now + LASTING[asked["lasting"]][1],
                reason=asked["reason"],
                actor=actor,
                now=now,
            )
        except InvalidSilence as error:
            self.add_error(_FIELD_OF[error.code], error.message)
        return None


class RuleForm(forms.Form):
    """A rule in one place: whether it holds, how severe what it finds is, and its limits."""

    enabled = forms.BooleanField(label="Judge this rule", required=False)
    severity = forms.ChoiceField(choices=Severity.choices, widget=forms.RadioSelect)
    version = forms.IntegerField(min_value=0, max_value=MAX_VERSION, widget=forms.HiddenInput)

    def __init__(
        self, data: Mapping[str, Any] | None, *, spec: Spec, setting: Setting, version: int = 0
    ) -> None:
        values = {name: f"{value:.10g}" for name, value in setting.values.items()}
        initial = {"enabled": setting.enabled, "severity": setting.severity, "version": version, **values}
        super().__init__(data, initial=initial)
        self.spec = spec
        for limit in spec.parameters:
            numbers = forms.IntegerField if limit.is_whole else forms.FloatField
            bounds = f"{written(limit.low)} to {written(limit.high)}; {written(limit.default)} as it comes."
            self.fields[limit.name] = numbers(
                label=f"{limit.label}{f' ({limit.unit})' if limit.unit else ''}",
                min_value=limit.low,  # type: ignore[arg-type]
                max_value=limit.high,  # type: ignore[arg-type]
                help_text=f"{limit.help} {bounds}".strip(),
            )

    @property
    def limits(self) -> list[forms.BoundField]:
        return [self[limit.name] for limit in self.spec.parameters]

    @property
    def values(self) -> dict[str, float]:
        return {limit.name: float(self.cleaned_data[limit.name]) for limit in self.spec.parameters}


def _offer(field: forms.Field, places: Mapping[str, Place], first: str = "") -> None:
    """Let the field offer the places, the installation under its name."""
    assert isinstance(field, forms.ChoiceField)
    named = [(slug, _name(slug, place)) for slug, place in places.items()]
    field.choices = [("", first), *named] if first else named


def _name(slug: str, place: Tenant | None) -> str:
    return "The installation" if slug == INSTALLATION or place is None else visible_text(place.name)
