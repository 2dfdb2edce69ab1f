"""A policy as its editor finds it: the version in force, what it lies over, whom an edit reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, Q

from .compose import levels_above, version_at
from .differences import Difference, Inheritance, Path, Value, differences, label_of, paths_of, said
from .models import JobPolicy, PolicyVersion
from .publish.policies import Place

SHOWN = 12
"""How many tenants, and how many policies that keep their own value, are named one by one."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What an edit begins with: ``current`` is None where there is no policy yet."""

    place: Place
    current: PolicyVersion | None
    document: Mapping[str, Any]
    inherited: Inheritance

    @property
    def number(self) -> int:
        return self.current.number if self.current else 0

    def differences_to(self, document: Mapping[str, Any]) -> list[Difference]:
        """Return what publishing ``document`` would change."""
        return differences(self.document, document, self.inherited)


def open_draft(place: Place, now: datetime) -> Draft:
    """Read a policy and what it lies over, at ``now``."""
    current = versions_of(place).filter(number=F("policy__version")).first()
    tenant_id = place.tenant.pk if place.tenant else None
    levels = levels_above(place.organisation.pk, tenant_id, place.job_type, now)
    return Draft(place, current, _document_at(current, now), Inheritance(levels))


def versions_of(place: Place) -> Any:
    """Return the versions of a policy, the newest first."""
    policies = JobPolicy.objects.at(place.organisation, place.tenant).filter(job_type=place.job_type)
    return PolicyVersion.objects.filter(policy__in=policies).select_related("author", "policy")


def document_of(place: Place, number: int) -> Mapping[str, Any] | None:
    """Return the document of a version, the empty one for 0, None where there is no such version."""
    if number == 0:
        return {}
    version = versions_of(place).filter(number=number).first()
    return version.document if version else None


def _document_at(version: PolicyVersion | None, now: datetime) -> Mapping[str, Any]:
    """Return what a policy says at ``now``: after a version has ended, the one before it holds again."""
    holds = version_at(version, now) if version else None
    return holds.document if holds else {}


@dataclass(frozen=True, slots=True)
class Clash:
    """A field of a policy that was edited meanwhile: what its editor saw, what stands, what they wrote."""

    path: Path
    seen: Value
    stands: Value
    yours: Value

    @property
    def label(self) -> str:
        return label_of(self.path)

    @property
    def is_theirs(self) -> bool:
        """Whether somebody else changed it, so that saving would undo that."""
        return self.seen != self.stands != self.yours


def clashes(seen: Mapping[str, Any], draft: Draft, yours: Mapping[str, Any]) -> list[Clash]:
    """Return the fields in which what stands differs from what was seen or from what was written."""
    found = {
        change.path: change
        for change in (*differences(seen, draft.document, draft.inherited), *draft.differences_to(yours))
    }
    three = [paths_of(document) for document in (seen, draft.document, yours)]
    return [
        Clash(
            path,
            *(
                Value(said(path, paths[path])) if path in paths else draft.inherited.value(path)
                for paths in three
            ),
        )
        for path in found
    ]


@dataclass(frozen=True, slots=True)
class Keeps:
    """A policy further down that has its own value for some of the fields that an edit changes."""

    policy: JobPolicy
    labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class Reach:
    """Whom an edit concerns: the tenants, and policies that keep their own value for what it changes."""

    tenants: Sequence[str]
    """Their slugs, the first of them."""
    total: int
    job_types: Sequence[str]
    """Those with a policy further down, for an edit of defaults."""
    keeps: Sequence[Keeps]
    keeping: int


def reach_of(place: Place, changed: Iterable[Path]) -> Reach:
    """Return whom a change of these fields concerns, in two statements."""
    paths = {path for path in changed if path[0] != "tools" or len(path) > 2}
    below = PolicyVersion.objects.filter(_below(place), number=F("policy__version"))
    versions = below.select_related("policy__tenant", "policy__organisation").order_by(
        "policy__job_type", "policy__tenant__slug"
    )
    keeps, job_types = [], set()
    for version in versions.iterator(chunk_size=500):
        job_types.add(version.policy.job_type)
        if own := sorted(paths & paths_of(version.document).keys()):
            keeps.append(Keeps(version.policy, [label_of(path) for path in own]))
    slugs = (
        [place.tenant.slug]
        if place.tenant
        else list(place.organisation.tenants.order_by("slug").values_list("slug", flat=True))
    )
    named = [place.job_type] if place.job_type else sorted(job_types - {""})
    return Reach(slugs[:SHOWN], len(slugs), named, keeps[:SHOWN], len(keeps))


def _below(place: Place) -> Q:
    """Find the policies that lie over a place: what they say themselves, an edit of it does not change."""
    own = Q(policy__organisation=place.organisation)
    jobs = ~Q(policy__job_type="")
    match place.tenant, place.job_type:
        case None, "":
            return own & (jobs | ~Q(policy__tenant=None))
        case None, job_type:
            return own & Q(policy__job_type=job_type) & ~Q(policy__tenant=None)
        case tenant, "":
            return own & jobs & (Q(policy__tenant=tenant) | Q(policy__tenant=None))
    return Q(pk__in=[])
