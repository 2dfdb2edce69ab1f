"""What a saved view of the runs list keeps of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from guardops.addresses import without
from guardops.tenants.access import visible_tenants
from guardops.tenants.list_pages import ListPage
from guardops.viewer import current_zone
from runs.filters import RunFilter
from runs.models import Run

if TYPE_CHECKING:
    from django.http import QueryDict

    from guardops.tenants.models import User

_WINDOW = ("range", "from", "to")  # read together, so that one's error is the others'


def kept(params: QueryDict, user: User) -> QueryDict:
    """Return the parameters but for those that are no filter, make no sense, or name another's tenant."""
    slugs = visible_tenants(user).values_list("slug", flat=True)
    kept = params if params.get("tenant", "") in ("", *slugs) else without(params, "tenant")
    while wrong := _wrong(kept):
        kept = without(kept, *wrong)
    return kept


def _wrong(params: QueryDict) -> set[str]:
    form = RunFilter(params, Run.objects.none(), now=timezone.now(), zone=current_zone()).form
    wrong = {*form.errors, *form.ignored}
    return (wrong | set(_WINDOW) if "range" in wrong else wrong) & set(params)


RUNS = ListPage("runs", "runs:list", "Runs", kept)
