"""What somebody fills in to stop what runs."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django import forms

from guardops.tenants.models import Tenant, User
from guardops.tenants.querysets import TenantQuerySet
from policies.choices import StopScope
from policies.errors import InvalidStop
from policies.models.stops import MAX_REASON
from policies.publish.stops import Issued, issue_stop

LASTING = {"15m": ("15 minutes", 900), "1h": ("An hour", 3_600), "1d": ("A day", 86_400)}
_FIELD_OF = {"no_name": "name", "no_reason": "reason", "over": "lasting"}


class StopForm(forms.Form):
    """Asks what is to stop, for how long, and why; offers only the tenants that it is given."""

    tenant = forms.ChoiceField(error_messages={"required": "Choose the tenant."})
    scope = forms.ChoiceField(
        label="What is to stop",
        choices=StopScope.choices,
        initial=StopScope.JOB_TYPE,
        widget=forms.RadioSelect,
    )
    name = forms.CharField(
        label="Which one",
        max_length=128,
        required=False,
        help_text="The job type, or the id of the task or run; a run with an id of its sender's goes by that."
        " Empty for the whole tenant.",
    )
    reason = forms.CharField(
        max_length=MAX_REASON,
        help_text="Told to the guards and to everybody who finds a run stopped.",
        error_messages={"required": "Say why: whoever finds the run stopped will ask."},
    )
    lasting = forms.ChoiceField(
        label="Until",
        choices=[("", "Somebody lifts it"), *((key, label) for key, (label, _) in LASTING.items())],
        required=False,
    )

    def __init__(self, *args: Any, tenants: TenantQuerySet, **options: Any) -> None:
        super().__init__(*args, **options)
        self._tenants = {tenant.slug: tenant for tenant in tenants}
        field = self.fields["tenant"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(tenant.slug, tenant.name) for tenant in tenants]

    @property
    def tenant_chosen(self) -> Tenant:
        return self._tenants[self.cleaned_data["tenant"]]

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or {}
        if asked.get("scope") not in (None, StopScope.TENANT) and not asked.get("name"):
            self.add_error("name", "Name what is to stop.")
        return asked

    def save(self, actor: User, now: datetime) -> Issued | None:
        """Issue the order; None, with the error at its field, where it makes no sense."""
        asked = self.cleaned_data
        lasting = LASTING.get(asked["lasting"])
        try:
            return issue_stop(
                self.tenant_chosen,
                StopScope(asked["scope"]),
                asked["name"],
                reason=asked["reason"],
                actor=actor,
                now=now,
                expires_at=now + timedelta(seconds=lasting[1]) if lasting else None,
            )
        except InvalidStop as error:
            self.add_error(_FIELD_OF.get(error.code), error.message)
        return None
