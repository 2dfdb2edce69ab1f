"""The lists of this layer that people may save views of."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from django.forms import Form

from . import access
from .forms.keys import KeyFilterForm
from .forms.trail import TrailForm
from .list_pages import ListPage, understood
from .trail.scope import trail_scope

if TYPE_CHECKING:
    from django.http import QueryDict

    from .models import User


def _kept_of_trail(params: QueryDict, user: User) -> QueryDict:
    return understood(params, partial(_form, TrailForm, trail_scope(user).tenants))


def _kept_of_keys(params: QueryDict, user: User) -> QueryDict:
    return understood(params, partial(_form, KeyFilterForm, access.require_administered_tenants(user)))


def _form(kind: type[Form], tenants: object, params: QueryDict) -> Form:
    return kind(params, tenants=tenants)


LISTS = (
    ListPage("audit", "tenants:audit", "Audit trail", _kept_of_trail),
    ListPage("keys", "tenants:keys", "API keys", _kept_of_keys),
)
