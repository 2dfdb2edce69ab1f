from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from guardops.tenants.models import Tenant
from policies.choices import GuardState
from policies.fleet import read_applied
from policies.models import BundleRevision, GuardInstance
from policies.publish.policies import save_policy
from policies.pull.fleet import Sign, forget_gone_guards, write_signs
from tests.policies.conftest import House

HASH = "0123456789abcdef"


def now() -> datetime:
    return datetime.now(UTC)


def see(tenant: Tenant, applied: str = "", reject: str = "", ago: timedelta = timedelta(0)) -> None:
    write_signs({(tenant.pk, str(uuid.uuid4())): Sign(now() - ago, applied, reject, "guardops-guard/0.1.0")})


def publish(house: House, most: int, seen: int, ago: timedelta = timedelta(0)) -> None:
    document = {"limits": {"max_steps": most}}
    save_policy(house.place(), document, seen=seen, actor=house.admin, now=now() - ago)


def counts(house: House) -> dict[str, int]:
    return dict(read_applied(Tenant.objects.filter(pk=house.tenant.pk), now()).counts)


@pytest.mark.parametrize(
    ("applied", "reject", "ago", "state"),
    [
        (f"2:{HASH};src=server;age=1", "", timedelta(0), GuardState.CURRENT),
        (f"1:{HASH};src=server;age=1", "", timedelta(0), GuardState.BEHIND),
        ("", "", timedelta(0), GuardState.STALE),
        (f"1:{HASH};src=server;age=1", f"2:{HASH};wrong_hash", timedelta(0), GuardState.REJECTING),
        (f"2:{HASH};src=server;age=1", "", timedelta(seconds=91), GuardState.SILENT),
        (f"2:{HASH};src=server;age=1", "", timedelta(hours=25), GuardState.GONE),
    ],
)
def test_guard_is_in_the_state_that_its_signs_say(
    house: House, applied: str, reject: str, ago: timedelta, state: GuardState
) -> None:
    publish(house, 10, 0, ago=timedelta(hours=1))
    publish(house, 11, 1, ago=timedelta(seconds=30))
    see(house.tenant, applied, reject, ago)
    assert counts(house) == {state: 1}


def test_guard_that_lacks_a_revision_for_a_minute_is_stale(house: House) -> None:
    publish(house, 10, 0, ago=timedelta(hours=1))
    publish(house, 11, 1, ago=timedelta(seconds=61))
    publish(house, 12, 2)
    see(house.tenant, f"1:{HASH};src=server;age=1")
    assert counts(house) == {GuardState.STALE: 1}


def test_later_sign_counts_whatever_the_order_of_writing(house: House) -> None:
    guard = str(uuid.uuid4())
    for revision, ago in ((2, 1), (1, 9)):
        sign = Sign(now() - timedelta(seconds=ago), f"{revision}:{HASH};src=server;age=0", "", "")
        write_signs({(house.tenant.pk, guard): sign})
    assert GuardInstance.objects.get().applied_revision == 2


@pytest.mark.parametrize(
    "header", ["", "x", "1:2", f"{'9' * 40}:{HASH}", f"1:{HASH};src=\0", "1:ü;src=server"]
)
def test_header_that_makes_no_sense_is_as_if_it_were_not_there(house: House, header: str) -> None:
    see(house.tenant, header, header)
    guard = GuardInstance.objects.get()
    assert (guard.applied_revision, guard.rejected_revision) == (0, None)


def test_guards_of_a_tenant_that_is_gone_are_left_out(house: House) -> None:
    write_signs({(10_000_000, str(uuid.uuid4())): Sign(now(), "", "", "")})
    assert not GuardInstance.objects.exists()


def test_page_lists_guards_and_counts_those_that_applied(house: House, client: Client) -> None:
    publish(house, 10, 0)
    see(house.tenant, f"1:{HASH};src=server;age=1")
    see(house.tenant, f"1:{HASH};src=file;age=9", ago=timedelta(minutes=5))
    see(house.foreign, f"1:{HASH};src=server;age=1")
    client.force_login(house.admin)
    page = client.get("/guards/").content.decode()
    assert "1 of 2 guards applied" in page
    assert page.count('scope="row"') == 2
    listed = client.get("/guards/?state=silent").content.decode()
    assert listed.count('scope="row"') == 1


def test_page_costs_the_same_however_many_guards_there_are(
    house: House, client: Client, django_assert_max_num_queries: object
) -> None:
    for _ in range(20):
        see(house.tenant, f"1:{HASH};src=server;age=1")
    client.force_login(house.admin)
    client.get("/connect/")  # what the navigation counts is known for ten seconds
    with django_assert_max_num_queries(9):  # type: ignore[operator]
        client.get("/guards/")


def test_line_beside_an_edit_names_the_revision_and_who_lacks_it(house: House, client: Client) -> None:
    publish(house, 10, 0, ago=timedelta(hours=1))
    publish(house, 11, 1)
    see(house.tenant, f"2:{HASH};src=server;age=1")
    see(house.tenant, f"1:{HASH};src=server;age=1")
    client.force_login(house.admin)
    line = client.get("/policies/applied/", {"tenant": house.tenant.slug}).content.decode()
    assert BundleRevision.objects.count() == 2
    assert "Revision 2: 1 of 2 guards applied" in line
    assert "1 behind" in line
    assert "data-poll" in line


def test_guard_that_is_gone_for_a_week_is_forgotten(house: House) -> None:
    see(house.tenant, ago=timedelta(days=7, seconds=1))
    see(house.tenant, ago=timedelta(days=6))
    assert forget_gone_guards(now()) == 1
    assert GuardInstance.objects.count() == 1
