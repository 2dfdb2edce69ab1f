"""What saved views of lists of runs keep of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from guardops.addresses import without
from guardops.tenants.access import visible, visible_tenants
from guardops.tenants.list_pages import ListPage, understood
from guardops.viewer import current_zone
from runs.checkpoints.filters import QueueForm
from runs.filters import RunFilter
from runs.models import Run
from runs.sources.forms import RadarForm

from .live import LiveFilterForm
from .releases_form import ReleasesForm

if TYPE_CHECKING:
    from django import forms
    from django.http import QueryDict

    from guardops.tenants.models import User


def _kept_of_runs(params: QueryDict, user: User) -> QueryDict:
    return understood(_of_own_tenants(params, user), _run_form, together=("range", "from", "to"))


def _run_form(params: QueryDict) -> forms.Form:
    return RunFilter(params, Run.objects.none(), now=timezone.now(), zone=current_zone()).form


def _kept_of_live_runs(params: QueryDict, user: User) -> QueryDict:
    return understood(_of_own_tenants(params, user), LiveFilterForm, beside=("tenant",))


def _kept_of_sources(params: QueryDict, user: User) -> QueryDict:
    seen = visible(user)
    return understood(params, lambda asked: RadarForm(asked, seen=seen))


def _kept_of_releases(params: QueryDict, user: User) -> QueryDict:
    seen = visible(user)
    return understood(params, lambda asked: ReleasesForm(asked, seen=seen))


def _kept_of_review(params: QueryDict, user: User) -> QueryDict:
    return understood(_of_own_tenants(params, user), QueueForm, beside=("tenant",))


def _of_own_tenants(params: QueryDict, user: User) -> QueryDict:
    slugs = visible_tenants(user).values_list("slug", flat=True)
    return params if params.get("tenant", "") in ("", *slugs) else without(params, "tenant")


LISTS = (
    ListPage("runs", "runs:list", "Runs", _kept_of_runs),
    ListPage("live", "runs:live", "Live runs", _kept_of_live_runs),
    ListPage("review", "runs:review-queue", "Review", _kept_of_review),
    ListPage("sources", "runs:sources", "Sources", _kept_of_sources),
    ListPage("releases", "runs:releases", "Releases", _kept_of_releases),
)
