"""Blocking a source for one, several or all tenants: who may, what it would hit, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django import forms

from guardops.tenants.access import visible_tenants
from guardops.tenants.forms.fields import VisibleCharField
from policies.blocklist.given import MAX_EVIDENCE
from policies.blocklist.reach import reaches_to_edit
from policies.choices import BlockAction, Origin, SourceKind
from policies.errors import NOT_PUBLISHED
from policies.forms.blocklist import LASTING
from policies.models import Change
from policies.models.sources import MAX_NAME, MAX_REASON
from policies.publish.sources import Reach, Wanted, block_sources

from .radar import Row
from .urls import page_of

if TYPE_CHECKING:
    from guardops.tenants.models import User

MOST_PLACES = 200


@dataclass(frozen=True, slots=True)
class PlaceRow:
    """A place that somebody may block for, and the runs of it that used the source."""

    name: str
    label: str
    reach: Reach
    stopped: int
    completed: int

    @property
    def is_tenant(self) -> bool:
        return self.reach.tenant is not None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of blocking for one place: a change to follow, that it stood already, or why not."""

    reach: Reach
    change: Change | None = None
    error: str = ""


def places_of(user: User, row: Row | None) -> list[PlaceRow]:
    """Return for whom ``user`` may block, those with stopped runs first, with what ``row`` counts there."""
    used = row.by_tenant if row else {}
    owners = {tenant.pk: tenant.organisation_id for tenant in visible_tenants(user)}
    found = []
    for name, (label, reach) in reaches_to_edit(user).items():
        if reach.tenant is not None:
            ids = {reach.tenant.pk}
        else:
            of = reach.organisation
            ids = {pk for pk, owner in owners.items() if of is None or owner == of.pk}
        counts = [counted for tenant_id, counted in used.items() if tenant_id in ids]
        stopped, completed = sum(of.stopped for of in counts), sum(of.completed for of in counts)
        found.append(PlaceRow(name, label, reach, stopped, completed))
    return sorted(found, key=lambda place: (not place.is_tenant, -place.stopped))[:MOST_PLACES]


class BlockSourceForm(forms.Form):
    """Which source, for whom, until when and why; offers only the places that it is given."""

    kind = forms.ChoiceField(choices=SourceKind.choices, widget=forms.HiddenInput)
    name = VisibleCharField(max_length=MAX_NAME, strip=False, widget=forms.HiddenInput)
    places = forms.MultipleChoiceField(
        label="Block for",
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose for whom it is blocked."},
    )
    lasting = forms.ChoiceField(
        label="Expires",
        choices=[("", "Never"), *((key, label) for key, (label, _) in LASTING.items())],
        required=False,
        initial="7d",
    )
    reason = VisibleCharField(
        max_length=MAX_REASON, required=False, help_text="Told to guards, and through them to agents."
    )

    def __init__(self, *args: Any, places: Sequence[PlaceRow], **options: Any) -> None:
        super().__init__(*args, **options)
        self.by_name = {place.name: place for place in places}
        field = self.fields["places"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [(place.name, place.label) for place in places]

    @property
    def rows(self) -> list[tuple[PlaceRow, bool]]:
        """The places, and whether each is chosen."""
        chosen = set(self["places"].value() or ())
        return [(place, name in chosen) for name, place in self.by_name.items()]

    def block(self, *, actor: User, now: datetime) -> list[Result]:
        """Block for each chosen place by itself: where one can't take it, the others still do."""
        asked = self.cleaned_data
        kind = SourceKind(asked["kind"])
        lasting = LASTING[asked["lasting"]][1] if asked["lasting"] else None
        evidence = page_of((kind.value, asked["name"]))
        wanted = Wanted(
            name=asked["name"],
            kind=kind,
            action=BlockAction.BLOCK,
            reason=asked["reason"],
            origin=Origin.SOURCE,
            evidence=evidence if len(evidence) <= MAX_EVIDENCE else "",
            expires_at=now + lasting if lasting else None,
        )
        return [_block(self.by_name[name].reach, wanted, actor, now) for name in asked["places"]]


def _block(reach: Reach, wanted: Wanted, actor: User, now: datetime) -> Result:
    try:
        [outcome], change = block_sources(reach, [wanted], actor=actor, now=now)
    except NOT_PUBLISHED as error:
        return Result(reach, error=error.message)
    return Result(reach, change, outcome.error.message if outcome.error else "")
