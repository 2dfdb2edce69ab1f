"""Which caps an edit of a policy changes, for which tenants and job types: levels that say otherwise win."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from guardops.guard.bundle import merge
from policies.compose import Level, read_policies
from policies.publish.policies import Place

from .caps import caps_of
from .counting import Stratum
from .replay import CapChange, changes_between

Levels = Mapping[tuple[int, int | None], Mapping[str, Level]]
Changes = tuple[CapChange, ...]


def strata_of(
    place: Place, tenant_ids: Sequence[int], draft: Mapping[str, Any], now: datetime
) -> list[Stratum]:
    """Return the runs of ``tenant_ids`` for which putting ``draft`` at ``place`` changes a cap, and which.

    Of the draft only limits and mode are looked at. In one statement.
    """
    levels = read_policies({place.organisation.pk}, list(tenant_ids))
    alike: defaultdict[tuple[tuple[str, Changes], ...], list[int]] = defaultdict(list)
    for tenant_id in tenant_ids:
        found = _by_job_type(levels, place, tenant_id, draft, now)
        alike[tuple(sorted(found.items(), key=lambda item: item[0]))].append(tenant_id)
    return [
        stratum
        for by_job_type, ids in alike.items()
        for stratum in _split(dict(by_job_type), tuple(ids), place.job_type)
        if stratum.changes
    ]


def _by_job_type(
    levels: Levels, place: Place, tenant_id: int, draft: Mapping[str, Any], now: datetime
) -> dict[str, Changes]:
    """Return what changes for a tenant's job types; '' stands for those without a policy of their own."""
    organisation = levels.get((place.organisation.pk, None), {})
    own = levels.get((place.organisation.pk, tenant_id), {})
    job_types = {place.job_type} if place.job_type else {"", *organisation, *own}
    edited = own if place.tenant else organisation
    found = {}
    for job_type in job_types:
        before: dict[str, Any] = {}
        after: dict[str, Any] = {}
        for name in dict.fromkeys(("", job_type)):
            for level in (organisation, own):
                document = level[name].at(now) if name in level else {}
                before = merge(before, document)
                is_edited = level is edited and name == place.job_type
                after = merge(after, draft if is_edited else document)
        found[job_type] = changes_between(caps_of(before), caps_of(after))
    return found


def _split(by_job_type: dict[str, Changes], tenant_ids: tuple[int, ...], job_type: str) -> list[Stratum]:
    if job_type:
        return [Stratum(tenant_ids, (job_type,), by_job_type[job_type])]
    others = by_job_type.pop("")
    alike: defaultdict[Changes, list[str]] = defaultdict(list)
    for name, changes in by_job_type.items():
        if changes != others:
            alike[changes].append(name)
    own = sorted(name for names in alike.values() for name in names)
    return [
        Stratum(tenant_ids, tuple(own), others, all_but=True),
        *(Stratum(tenant_ids, tuple(names), changes) for changes, names in alike.items()),
    ]
