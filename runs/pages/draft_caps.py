"""What the policy editor asks of past runs: a place, and the limits that are typed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import Http404
from django.urls import reverse

from guardops.guard.bundle import merge
from guardops.shown import visible_text
from guardops.tenants.access import visible
from policies.compose import above
from policies.differences import MODES
from policies.drafts import open_draft
from policies.errors import InvalidPolicy
from policies.forms.policy import limits_alone
from policies.limits import BUILT_IN, LIMITS
from policies.pages.places import place_or_404, place_query
from policies.publish.policies import Place, check_over
from runs.reports.panels.links import Links

if TYPE_CHECKING:
    from datetime import datetime

    from django.http import QueryDict

    from guardops.tenants.models import User


@dataclass(frozen=True, slots=True)
class DraftCaps:
    """A policy's limits in force and as typed. ``typed`` is empty where nothing was, or is wrong."""

    place: Place
    tenant_ids: tuple[int, ...]
    """The place's tenants whose runs the reader may see."""
    links: Links | None
    """Links to lists of just these tenants' runs; None where the list can't name them."""
    in_force: Mapping[str, Any]
    """The merged document."""
    draft: Mapping[str, Any]
    """The place's own document with the limits and the mode that are typed."""
    merged: Mapping[str, Any]
    """The draft over what it lies over."""
    typed: Mapping[str, Any]
    mode: str
    """The mode that is typed, empty where none is."""
    given: bool
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def query(self) -> str:
        """The query of this place and what is typed, for links that keep it."""
        # An empty limit says that all of them were left empty.
        return place_query(self.place, **(self._written or ({"max_steps": ""} if self.given else {})))

    def edit_with(self, **limits: object) -> str:
        """Return the link to the editor with what is typed, and these limits in it."""
        return f"{reverse('policies:edit')}?{place_query(self.place, **{**self._written, **limits})}"

    @property
    def _written(self) -> dict[str, Any]:
        return {**self.typed, **({"mode": self.mode} if self.mode else {})}

    def limit_in_force(self, name: str) -> Any:
        return _limit(self.in_force, name)

    def limit_typed(self, name: str) -> Any:
        return _limit(self.merged, name)


def read_draft(user: User, params: QueryDict, now: datetime) -> DraftCaps:
    """Read the address; what is empty is inherited, and without any limit the draft is what is in force.

    Raises Http404 for a place that ``user`` may not see.
    """
    if any(len(params.getlist(name)) > 1 for name in ("tenant", "organisation", "job", "place")):
        raise Http404("Named more than once.")
    place = place_or_404(user, params)
    draft = open_draft(place, now)
    mode = params.get("mode", "") if params.get("mode", "") in MODES else ""
    given = bool(mode) or any(name in params for name in LIMITS)
    lying_above = above(place.organisation.pk, place.tenant.pk if place.tenant else None, place.job_type, now)
    limits, problems = _typed(params, lying_above) if given else ({}, ())
    document = dict(draft.document)
    if given and not problems:
        document = {**document, "limits": limits, **({"mode": mode} if mode else {})}
    tenant_ids, links = _runs_of(user, place)
    return DraftCaps(
        place=place,
        tenant_ids=tenant_ids,
        links=links,
        in_force=merge(lying_above, draft.document),
        draft=document,
        merged=merge(lying_above, document),
        typed={} if problems else limits,
        mode=mode,
        given=given,
        problems=problems,
    )


def _typed(
    params: QueryDict, lying_above: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[tuple[str, str], ...]]:
    """Return the limits that are typed, and what the guard's validator says against them."""
    form = limits_alone(params)
    problems = [(LIMITS[name].label, str(error)) for name, errors in form.errors.items() for error in errors]
    limits = {name: value for name, value in form.cleaned_data.items() if value is not None}
    while True:
        try:
            check_over(lying_above, {"limits": limits})
        except InvalidPolicy as error:
            label = LIMITS[error.field].label if error.field in LIMITS else error.field
            problems.append((label, error.message.removeprefix(f"{error.field}: ")))
            if limits.pop(error.field, None) is None:
                break
        else:
            break
    return limits, tuple(problems)


def _limit(document: Mapping[str, Any], name: str) -> Any:
    return document.get("limits", {}).get(name, BUILT_IN[name])


def _runs_of(user: User, place: Place) -> tuple[tuple[int, ...], Links | None]:
    """Return the place's tenants that ``user`` may see, and links to lists of just their runs."""
    seen = visible(user)
    job = {"job": visible_text(place.job_type)} if place.job_type else {}
    if place.tenant is not None:
        return (place.tenant.pk,), Links({"tenant": place.tenant.slug, **job}, {})
    tenants = [tenant for tenant in seen.tenants if tenant.organisation_id == place.organisation.pk]
    ids = tuple(tenant.pk for tenant in tenants)
    if len(tenants) == 1:
        return ids, Links({"tenant": tenants[0].slug, **job}, {})
    # Without a tenant the list holds all that its reader may see.
    return ids, Links(job, {}) if len(tenants) == len(seen.tenants) else None
