"""Which sources are signals: those of several owners, and nobody's own making."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from runs.sources.signals import signals
from tests.factories import make_organisation, make_tenant
from tests.runs.rows import fold
from tests.runs.sources.town import TRAP, add_runs, make_town, trap

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


def test_source_in_stopped_runs_of_three_tenants_of_two_organisations_is_a_signal(now: datetime) -> None:
    tenants = make_town(2, 1)
    for tenant in tenants:
        trap(tenant, now)

    [signal] = signals(now)
    assert (signal.kind, signal.name, signal.tenants, signal.organisations) == (
        "domain",
        "trap.example",
        3,
        2,
    )
    assert (signal.stopped, signal.completed) == (15, 0)
    assert signal.lift.low > 1
    assert signal.first_seen == now.date()


@pytest.mark.parametrize("sizes", [(3, 0), (2, 0), (1, 1), (50, 0)], ids=str)
def test_one_owner_makes_no_signal_where_others_share_the_installation(
    now: datetime, sizes: tuple[int, int]
) -> None:
    for tenant in make_town(*sizes):
        trap(tenant, now)
    trap_free = make_town(2)
    for tenant in trap_free:
        add_runs(tenant, 5, now, stopped=True, sources=[])
        add_runs(tenant, 20, now, stopped=False, sources=[])

    assert signals(now) == []


def test_three_tenants_of_the_only_organisation_make_a_signal_and_two_do_not(now: datetime) -> None:
    organisation = make_organisation()
    for _ in range(2):
        trap(make_tenant(organisation=organisation), now, stopped=10)
    assert signals(now) == []

    trap(make_tenant(organisation=organisation), now)
    assert [signal.tenants for signal in signals(now)] == [3]


def test_owner_with_fifty_tenants_raises_no_suspicion_of_what_all_others_use(now: datetime) -> None:
    """Everybody uses the tool in one run of five; one owner says that it is in all of its stopped ones."""
    attackers, others = make_town(50), make_town(2, 2)
    tool = {"kind": "tool", "name": "search_web", "calls": 1}
    for tenant in attackers:
        add_runs(tenant, 4, now, stopped=True, sources=[tool])
        add_runs(tenant, 4, now, stopped=False, sources=[])
    for tenant in others:
        for stopped in (True, False):
            add_runs(tenant, 4, now, stopped=stopped, sources=[tool])
            add_runs(tenant, 16, now, stopped=stopped, sources=[])

    assert signals(now) == []


def test_tenant_whose_runs_never_complete_does_not_count(now: datetime) -> None:
    tenants = make_town(2, 1)
    for tenant in tenants[:2]:
        trap(tenant, now, stopped=10)
    trap(tenants[2], now, stopped=10, completed=0)

    assert signals(now) == []


def test_source_as_common_in_completed_runs_is_no_signal(now: datetime) -> None:
    for tenant in make_town(2, 2):
        add_runs(tenant, 10, now, stopped=True, sources=[TRAP])
        add_runs(tenant, 10, now, stopped=False, sources=[TRAP])

    assert signals(now) == []


def test_few_runs_are_no_signal(now: datetime) -> None:
    for tenant in make_town(2, 1):
        trap(tenant, now, stopped=3)

    assert signals(now) == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("folded", [True, False])
def test_made_up_domains_of_one_owner_crowd_no_signal_out(now: datetime, folded: bool) -> None:
    for tenant in make_town(4):  # 800 names, of more stopped runs each
        names = [{"kind": "domain", "name": f"d{n}-{tenant.pk}.example", "calls": 1} for n in range(200)]
        add_runs(tenant, 20, now, stopped=True, sources=names)
    for tenant in make_town(2, 1):
        trap(tenant, now)
    if folded:
        fold(now)

    assert [signal.name for signal in signals(now)] == ["trap.example"]
