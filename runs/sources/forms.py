"""What an address of the radar asks for."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms

from guardops.guard.domains import normal_host
from guardops.tenants.access import Visible
from guardops.tenants.forms.fields import VisibleCharField
from guardops.tenants.models import Tenant
from policies.choices import SourceKind

from .counts import Days
from .radar import Row, State

if TYPE_CHECKING:
    from django.http import QueryDict

RANGES = {"1": "Today", "7": "Last 7 days", "14": "Last 14 days", "30": "Last 30 days"}
DEFAULT_DAYS = "7"


class RadarForm(forms.Form):
    """Which sources. A tenant of others is refused like one that is made up."""

    days = forms.ChoiceField(label="Range", choices=list(RANGES.items()), required=False)
    tenant = forms.ChoiceField(required=False)
    kind = forms.ChoiceField(choices=[("", "Domains and tools"), *SourceKind.choices], required=False)
    tenants = forms.ChoiceField(
        label="Tenants", choices=[("", "Any number"), ("several", "≥ 3")], required=False
    )
    state = forms.ChoiceField(choices=[("", "Any"), *State.choices], required=False)
    q = VisibleCharField(label="Find", max_length=253, required=False)
    view = forms.ChoiceField(choices=[("", "Chart"), ("table", "Table")], required=False)
    page = forms.IntegerField(min_value=1, max_value=2**31 - 1, required=False)

    def __init__(self, data: QueryDict, *, seen: Visible, **options: Any) -> None:
        super().__init__(data, **options)
        self.seen = seen
        field = self.fields["tenant"]
        assert isinstance(field, forms.ChoiceField)
        slugs = [(tenant.slug, tenant.slug) for tenant in seen.tenants]
        field.choices = [("", f"All {len(slugs)}"), *slugs]

    @property
    def narrows(self) -> bool:
        return any(self.cleaned_data.get(name) for name in ("kind", "tenants", "state", "q"))

    @property
    def scope(self) -> list[Tenant]:
        """The tenants that are asked about."""
        slug = self.cleaned_data.get("tenant", "")
        return [self.seen.by_slug(slug)] if slug else list(self.seen.tenants)

    def asked_days(self, now: datetime) -> Days:
        return Days.until(now, int(self.cleaned_data.get("days") or DEFAULT_DAYS))

    def takes(self, row: Row) -> bool:
        """Say whether a row is among those that are asked for."""
        asked = self.cleaned_data
        if asked["tenant"] and not row.mine.stopped:
            return False
        if asked["tenants"] and row.crossing is None:
            return False
        if (asked["kind"] or row.kind, asked["state"] or row.state) != (row.kind, row.state):
            return False
        return not asked["q"] or self._names(asked["q"], row)

    def _names(self, text: str, row: Row) -> bool:
        # What people read is no part of what is kept: look for its A-label too.
        label = None if text.isascii() else normal_host(text)
        return text.lower() in row.name.lower() or bool(label and label in row.name)
