"""What saved views of the list of incidents keep of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardops.tenants.access import visible
from guardops.tenants.list_pages import ListPage, understood

from .access import places_seen
from .forms import IncidentFilterForm

if TYPE_CHECKING:
    from django.http import QueryDict

    from guardops.tenants.models import User


def _kept(params: QueryDict, user: User) -> QueryDict:
    places = places_seen(visible(user))
    return understood(params, lambda asked: IncidentFilterForm(asked, places=places))


LISTS = (ListPage("incidents", "runs:incidents", "Incidents", _kept),)
