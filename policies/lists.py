"""The lists of this layer that people may save views of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardops.tenants import access
from guardops.tenants.list_pages import ListPage, understood

from .forms.blocklist import BlockFilterForm
from .forms.filters import PolicyFilterForm

if TYPE_CHECKING:
    from django.http import QueryDict

    from guardops.tenants.models import User


def _kept_of_policies(params: QueryDict, user: User) -> QueryDict:
    tenants = access.visible(user).tenants
    return understood(params, lambda asked: PolicyFilterForm(asked, tenants=tenants))


def _kept_of_blocklist(params: QueryDict, user: User) -> QueryDict:
    tenants = access.visible(user).tenants
    return understood(params, lambda asked: BlockFilterForm(asked, tenants=tenants))


LISTS = (
    ListPage("policies", "policies:list", "Policies", _kept_of_policies),
    ListPage("blocklist", "policies:blocklist", "Blocklist", _kept_of_blocklist),
)
