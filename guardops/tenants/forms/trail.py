from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django import forms

from guardops.tenants.models import Tenant
from guardops.tenants.trail.kinds import kinds
from guardops.tenants.trail.reading import Asked, Place

DAYS = {"24h": 1, "7d": 7, "": 30, "90d": 90}
ACTIONS = {
    "insert": "Added",
    "update": "Changed",
    "delete": "Removed",
    "login": "Signed in",
    "secret": "Changed a secret",
    "password": "Password set",
}


class PlaceField(forms.CharField):
    """A place in the trail, where a page of it begins."""

    def __init__(self) -> None:
        super().__init__(required=False, max_length=80, widget=forms.HiddenInput)

    def clean(self, value: Any) -> Place | None:
        text = super().clean(value)
        try:
            return Place.parse(text) if text else None
        except ValueError:
            raise forms.ValidationError("This page of the trail does not exist.") from None


class TrailForm(forms.Form):
    """Which audit rows to show. Choices, not look-ups: a tenant of others is refused like a made-up one."""

    range = forms.ChoiceField(
        label="Range",
        choices=[
            *(("24h", "24 hours"), ("7d", "7 days"), ("", "30 days"), ("90d", "90 days")),
            ("all", "All time"),
        ],
        required=False,
    )
    tenant = forms.ChoiceField(label="Tenant", required=False)
    kind = forms.ChoiceField(label="Kind", required=False)
    action = forms.ChoiceField(label="Action", choices=[("", "All"), *ACTIONS.items()], required=False)
    who = forms.CharField(label="Done by", max_length=150, required=False)
    after = PlaceField()
    before = PlaceField()

    def __init__(self, *args: Any, tenants: Sequence[Tenant], **options: Any) -> None:
        super().__init__(*args, **options)
        self._tenants = {tenant.slug: tenant for tenant in tenants}
        self._choose("tenant", [(tenant.slug, tenant.name) for tenant in tenants])
        self._choose("kind", [(kind.slug, kind.label) for kind in kinds()])

    @property
    def narrowed(self) -> bool:
        """Say whether anything but the range leaves rows out."""
        return any(self.cleaned_data[name] for name in ("tenant", "kind", "action", "who"))

    def asked(self, now: datetime) -> Asked:
        """Return what a valid form asks for."""
        chosen = self.cleaned_data
        days = DAYS.get(chosen["range"])
        return Asked(
            since=now - timedelta(days=days) if days else None,
            kind=chosen["kind"],
            action=chosen["action"],
            tenant=self._tenants.get(chosen["tenant"]),
            who=chosen["who"],
            after=chosen["after"],
            before=chosen["before"],
        )

    def _choose(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "All"), *choices]
