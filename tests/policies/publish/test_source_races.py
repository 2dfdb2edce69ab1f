"""Two at once, on connections of their own: one does it, the other is told."""

from __future__ import annotations

from datetime import timedelta

import pytest

from guardops.tenants.actors import SYSTEM
from policies.models import BlockedSource
from policies.publish.sources import Reach, Wanted, block_sources, revert_sources
from tests.factories import make_tenant
from tests.policies.conftest import NOW
from tests.tenants.test_races import AT_ONCE, together

pytestmark = pytest.mark.django_db(transaction=True)


def test_same_source_blocked_at_once_is_blocked_once_and_taken_back_once() -> None:
    tenant = make_tenant()
    reach = Reach(tenant.organisation, tenant)

    def block() -> bool:
        [outcome], _ = block_sources(reach, [Wanted("a.example")], actor=SYSTEM, now=NOW)
        return outcome.already

    assert sorted(together(block)) == [False] + [True] * (AT_ONCE - 1)  # type: ignore[type-var]
    assert BlockedSource.objects.count() == 1
    later = NOW + timedelta(minutes=1)
    _, change = block_sources(reach, [Wanted("b.example")], actor=SYSTEM, now=later)
    assert change is not None
    reverted = together(lambda: revert_sources(change, actor=SYSTEM, now=later + timedelta(minutes=1)))
    assert sum(each is not None for each in reverted) == 1
