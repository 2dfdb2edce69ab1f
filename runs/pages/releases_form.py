"""What an address of the releases asks for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django import forms

from guardops.tenants.access import Visible
from guardops.tenants.forms.fields import VisibleCharField
from guardops.tenants.models import Tenant
from runs.reports.arrivals import Arrival

if TYPE_CHECKING:
    from django.http import QueryDict

RANGES = {"1": "Last 24 hours", "7": "Last 7 days", "14": "Last 14 days", "30": "Last 30 days"}
DEFAULT_DAYS = "7"


class ReleasesForm(forms.Form):
    """Which releases. A tenant of others is refused like one that is made up."""

    days = forms.ChoiceField(label="First seen", choices=list(RANGES.items()), required=False)
    tenant = forms.ChoiceField(required=False)
    job = VisibleCharField(label="Job type", max_length=128, required=False)
    q = VisibleCharField(label="Find", max_length=257, required=False)
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
        return any(self.cleaned_data.get(name) for name in ("tenant", "job", "q"))

    @property
    def scope(self) -> list[Tenant]:
        """The tenants that are asked about."""
        slug = self.cleaned_data.get("tenant", "")
        return [self.seen.by_slug(slug)] if slug else list(self.seen.tenants)

    def start(self, now: datetime) -> datetime:
        """Return from when on a release must have come."""
        return now - timedelta(days=int(self.cleaned_data.get("days") or DEFAULT_DAYS))

    def takes(self, arrival: Arrival) -> bool:
        """Say whether a release is among those that are asked for."""
        job, text = self.cleaned_data["job"], self.cleaned_data["q"]
        if job and arrival.job_type != job:
            return False
        return text.lower() in f"{arrival.job_type} {arrival.release}".lower()
