from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.db.models import Q

from guardops.tenants.choices import KeyState, Scope
from guardops.tenants.keys import create_key
from guardops.tenants.models import ApiKey, ApiKeyTenant, Tenant, User
from guardops.tenants.querysets import ApiKeyQuerySet, TenantQuerySet
from guardops.tenants.rotation import GRACES, rotate_key

LIFETIMES = {30: "In 30 days", 90: "In 90 days", 365: "In a year"}

if TYPE_CHECKING:
    TenantsBase = forms.ModelMultipleChoiceField[Tenant]
else:
    TenantsBase = forms.ModelMultipleChoiceField


class TenantsField(TenantsBase):
    """Several of the tenants offered, by slug."""

    def label_from_instance(self, obj: Tenant) -> str:
        return obj.name


def lifetime(label: str) -> forms.TypedChoiceField:
    """Return the field that asks for how many days a key is to work; None is for ever."""
    return forms.TypedChoiceField(
        label=label,
        choices=[("", "Never"), *LIFETIMES.items()],
        coerce=int,
        empty_value=None,
        required=False,
    )


def expiry(days: int | None, now: datetime) -> datetime | None:
    return now + timedelta(days=days) if days else None


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
    days = lifetime("Expires")

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
            expires_at=expiry(chosen["days"], now),
        )


class RotateForm(forms.Form):
    """Asks how long the old key works on, and how long the new one is to work."""

    grace = forms.ChoiceField(
        label="The old key works on for",
        choices=[("1h", "1 hour"), ("1d", "1 day"), ("7d", "7 days")],
        initial="1d",
        help_text="Time to give the new key to everything that uses the old one.",
    )
    days = lifetime("The new key expires")

    def __init__(self, *args: Any, key: ApiKey, **options: Any) -> None:
        super().__init__(*args, **options)
        self.key = key
        self.fields["days"].initial = _days_like(key)

    def save(self, *, actor: User, now: datetime) -> tuple[ApiKey, str]:
        """Rotate the key and return the new one with its plain text; raises InvalidKey where it can't be."""
        chosen = self.cleaned_data
        return rotate_key(
            self.key,
            grace=GRACES[chosen["grace"]],
            actor=actor,
            now=now,
            expires_at=expiry(chosen["days"], now),
        )


class KeyFilterForm(forms.Form):
    """Which keys to list. Choices, not look-ups: a tenant of others is refused like one that is made up."""

    tenant = forms.ChoiceField(required=False)
    state = forms.ChoiceField(choices=[("", "Any"), *KeyState.choices], required=False)

    def __init__(self, *args: Any, tenants: Iterable[Tenant], **options: Any) -> None:
        super().__init__(*args, **options)
        field = self.fields["tenant"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "All"), *((tenant.slug, tenant.name) for tenant in tenants)]

    def narrow(self, keys: ApiKeyQuerySet) -> ApiKeyQuerySet:
        """Return those of ``keys`` that the form asks for; none where it can't be read."""
        if not self.is_valid():
            return keys.none()
        if tenant := self.cleaned_data["tenant"]:
            keys = keys.filter(pk__in=ApiKeyTenant.objects.filter(tenant__slug=tenant).values("api_key"))
        if state := self.cleaned_data["state"]:
            keys = keys.filter(Q(state=state))
        return keys


def _days_like(key: ApiKey) -> int | None:
    """Return the offered number of days that is nearest to how long ``key`` was made for."""
    if key.expires_at is None:
        return None
    made_for = (key.expires_at - key.created_at).days
    return min(LIFETIMES, key=lambda days: abs(days - made_for))
