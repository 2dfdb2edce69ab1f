"""Two edits never wait for each other in a circle: what each holds while the other is under way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection

from guardops.tenants.actors import SYSTEM
from policies.choices import StopScope
from policies.models import BlockedSource
from policies.publish import changes
from policies.publish.policies import save_policy
from policies.publish.sources import Reach, Wanted, block_sources, remove_sources
from policies.publish.stops import issue_stop
from policies.publish.writing import publishing
from tests.policies.conftest import NOW, House

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits of an organisation lock none of its tenants yet."""
    monkeypatch.setattr(changes, "IN_REQUEST_S", 0.0)


def do_beside(under_way: Callable[[], object], what: Callable[[], object]) -> None:
    """Do ``what`` on another connection, which waits for no lock for long, while an edit is not committed."""

    def run() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '500ms'")
            what()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as others, publishing(SYSTEM):
        under_way()
        others.submit(run).result(timeout=10)


def test_stop_of_a_tenant_does_not_wait_for_an_edit_of_policies_which_waits_for_tenants(house: House) -> None:
    do_beside(
        lambda: save_policy(house.place(wide=True), {"mode": "off"}, seen=0, actor=SYSTEM, now=NOW),
        lambda: issue_stop(house.tenant, StopScope.TENANT, "", reason="x", actor=SYSTEM, now=NOW),
    )


def test_unblocking_waits_for_the_edit_of_the_same_list(house: House) -> None:
    reach = Reach(house.organisation)
    block_sources(reach, [Wanted("a.example")], actor=SYSTEM, now=NOW)
    [blocked] = BlockedSource.objects.values_list("pk", flat=True)
    with pytest.raises(OperationalError, match="lock timeout"):
        do_beside(
            lambda: block_sources(reach, [Wanted("b.example")], actor=SYSTEM, now=NOW),
            lambda: remove_sources(reach, [blocked], actor=SYSTEM, now=NOW),
        )
