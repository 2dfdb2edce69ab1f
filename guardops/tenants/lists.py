"""The lists of this layer that people may save views of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import access
from .forms.keys import KeyFilterForm
from .forms.trail import TrailForm
from .list_pages import ListPage, understood
from .trail.scope import trail_scope

if TYPE_CHECKING:
    from django.http import QueryDict

    from .models import User


def _kept_of_trail(params: QueryDict, user: User) -> QueryDict:
    tenants = list(trail_scope(user).tenants)
    return understood(params, lambda asked: TrailForm(asked, tenants=tenants))


def _kept_of_keys(params: QueryDict, user: User) -> QueryDict:
    tenants = access.require_administered_tenants(user)
    return understood(params, lambda asked: KeyFilterForm(asked, tenants=tenants))


LISTS = (
    ListPage("audit", "tenants:audit", "Audit trail", _kept_of_trail),
    ListPage("keys", "tenants:keys", "API keys", _kept_of_keys),
)
