from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms

from guardops.tenants.forms.fields import VisibleCharField
from policies.differences import MODES
from policies.models.policy import MAX_JOB_TYPE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.http import QueryDict

    from guardops.tenants.models import Tenant
    from policies.querysets import JobPolicyQuerySet

LEVELS = {"organisation": "Organisations", "tenant": "Tenants"}


class PolicyFilterForm(forms.Form):
    """Which policies to list. A tenant of others is refused like one that is made up."""

    tenant = forms.ChoiceField(required=False)
    level = forms.ChoiceField(label="Of", choices=[("", "All levels"), *LEVELS.items()], required=False)
    mode = forms.ChoiceField(label="Sets mode", choices=[("", "Any"), *MODES.items()], required=False)
    job = VisibleCharField(label="Job type", max_length=MAX_JOB_TYPE, required=False)
    page = forms.IntegerField(min_value=1, max_value=2**31 - 1, required=False)

    def __init__(self, data: QueryDict, *, tenants: Iterable[Tenant], **options: Any) -> None:
        super().__init__(data, **options)
        field = self.fields["tenant"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", "All"), *((tenant.slug, tenant.name) for tenant in tenants)]

    @property
    def narrows(self) -> bool:
        return any(self.cleaned_data.get(name) for name in ("tenant", "level", "mode", "job"))

    def narrow(self, policies: JobPolicyQuerySet, tenants: Iterable[Tenant]) -> JobPolicyQuerySet:
        """Return those of ``policies`` that are asked for; of a tenant also its organisation’s."""
        asked = self.cleaned_data
        if slug := asked["tenant"]:
            tenant = next(tenant for tenant in tenants if tenant.slug == slug)
            policies = policies.concerning(tenant)
        if level := asked["level"]:
            policies = policies.filter(tenant__isnull=level == "organisation")
        if mode := asked["mode"]:
            policies = policies.saying_mode(mode)
        return policies.filter(job_type__icontains=asked["job"]) if asked["job"] else policies
