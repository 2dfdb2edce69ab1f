from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms

from guardops.tenants.choices import Scope
from guardops.tenants.keys import create_key
from guardops.tenants.models import ApiKey, Tenant, User
from guardops.tenants.querysets import TenantQuerySet

if TYPE_CHECKING:
    TenantsBase = forms.ModelMultipleChoiceField[Tenant]
else:
    TenantsBase = forms.ModelMultipleChoiceField


class TenantsField(TenantsBase):
    """Several of the tenants offered, by slug."""

    def label_from_instance(self, obj: Tenant) -> str:
        return obj.name


class KeyForm(forms.Form):
    """Asks for a new key; offers only the tenants that it is given."""

    name = forms.CharField(
        max_length=128,
        help_text="What will use it, such as “research workers, eu-1”.",
        error_messages={"required": "Give the key a name."},
    )
    tenants = TenantsField(
        Tenant.objects.none(),
        to_field_name="slug",
        widget=forms.CheckboxSelectMultiple,
        help_text="Runs sent with this key may belong to any of these.",
        error_messages={"required": "Choose at least one tenant."},
    )
    scopes = forms.MultipleChoiceField(
        label="May",
        choices=Scope.choices,
        initial=[Scope.EVENTS_WRITE, Scope.BUNDLE_READ],
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose what the key may do."},
    )
    days = forms.TypedChoiceField(
        label="Expires",
        choices=[("", "Never"), (30, "In 30 days"), (90, "In 90 days"), (365, "In a year")],
        coerce=int,
        empty_value=None,
        required=False,
    )

    def __init__(self, *args: Any, tenants: TenantQuerySet, **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["tenants"]
        assert isinstance(field, TenantsField)
        field.queryset = tenants

    def clean_tenants(self) -> list[Tenant]:
        tenants = list(self.cleaned_data["tenants"].select_related("organisation"))
        if len({tenant.organisation_id for tenant in tenants}) > 1:
            raise forms.ValidationError("A key covers tenants of one organisation only.")
        return tenants

    def save(self, *, actor: User, now: datetime) -> tuple[ApiKey, str]:
        """Make the key and return it with its plain text."""
        chosen = self.cleaned_data
        return create_key(
            organisation=chosen["tenants"][0].organisation,
            tenants=chosen["tenants"],
            name=chosen["name"],
            scopes=chosen["scopes"],
            actor=actor,
            now=now,
            expires_at=now + timedelta(days=chosen["days"]) if chosen["days"] else None,
        )
