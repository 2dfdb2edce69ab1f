from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from policies.choices import StopScope
from policies.models import Change, Stop
from policies.publish.stops import issue_stop
from tests.hostile.payloads import PAYLOADS
from tests.policies.conftest import House, bundle_of, contradict
from tests.runs.live_rows import insert_live

SURE = {"sure": "1"}


@pytest.fixture
def admin(house: House, client: Client) -> Client:
    client.force_login(house.admin)
    return client


def order(house: House, **fields: str) -> dict[str, str]:
    return {"tenant": house.tenant.slug, "scope": "job_type", "name": "research", "reason": "loops"} | fields


def test_form_says_what_it_ends_before_it_ends_anything(admin: Client, house: House) -> None:
    response = admin.post("/stops/new/", order(house))
    page = response.content.decode()
    assert response.status_code == 200
    assert "Stop <bdi>research</bdi> in <bdi>Research</bdi>?" in page
    assert "/runs/live/count/?tenant=research&amp;scope=job_type&amp;name=research" in page
    assert not Stop.objects.exists()


def test_order_that_is_meant_reaches_the_guards_and_shows_its_progress(admin: Client, house: House) -> None:
    response = admin.post("/stops/new/", order(house) | SURE)
    change = Change.objects.get()
    assert response["Location"] == f"/changes/{change.pk}/"
    assert [(stop.scope, stop.name) for stop in bundle_of(house.tenant).stops] == [("job_type", "research")]
    assert "No guard has pulled policies yet" in admin.get(f"/changes/{change.pk}/").content.decode()


def test_tenant_whose_rules_contradict_each_other_is_stopped_all_the_same(
    admin: Client, house: House
) -> None:
    contradict(house)
    stood = bundle_of(house.tenant).defaults
    response = admin.post("/stops/new/", order(house) | SURE, follow=True)
    assert "stays as it was for them" in response.content.decode()
    told = bundle_of(house.tenant)
    assert ([stop.name for stop in told.stops], told.defaults) == (["research"], stood)
    admin.post(f"/stops/{Stop.objects.get().pk}/lift/")
    assert bundle_of(house.tenant).stops == ()


def test_order_with_a_time_ends_by_itself(admin: Client, house: House) -> None:
    admin.post("/stops/new/", order(house, lasting="1h") | SURE)
    stop = Stop.objects.get()
    assert stop.expires_at is not None
    assert timedelta(minutes=59) < stop.expires_at - datetime.now(UTC) <= timedelta(hours=1)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": ""}, "Name what is to stop."),
        ({"reason": " "}, "Say why"),
        ({"tenant": "elsewhere"}, "Select a valid choice"),
        ({"scope": "planet"}, "Select a valid choice"),
        ({"lasting": "ever"}, "Select a valid choice"),
        ({"name": "x" * 129}, "at most 128"),
        ({"name": "a\0b"}, "Null characters"),
    ],
)
def test_order_that_makes_no_sense_says_so_at_its_field(
    admin: Client, house: House, fields: dict[str, str], told: str
) -> None:
    response = admin.post("/stops/new/", order(house, **fields) | SURE)
    assert response.status_code == 200
    assert told in response.content.decode()
    assert not Stop.objects.exists()


def test_same_order_again_is_told_to_stand(admin: Client, house: House) -> None:
    admin.post("/stops/new/", order(house) | SURE)
    response = admin.post("/stops/new/", order(house) | SURE, follow=True)
    assert "is stopped already" in response.content.decode()
    assert Stop.objects.count() == 1


def test_second_thoughts_lead_back_to_what_was_typed(admin: Client, house: House) -> None:
    response = admin.post("/stops/new/", order(house) | {"change": "1"})
    page = response.content.decode()
    assert 'name="reason"' in page
    assert 'value="loops"' in page
    assert not Stop.objects.exists()


def test_lifted_order_is_told_to_nobody_and_stays_in_the_list(admin: Client, house: House) -> None:
    admin.post("/stops/new/", order(house) | SURE)
    stop = Stop.objects.get()
    admin.post(f"/stops/{stop.pk}/lift/")
    assert bundle_of(house.tenant).stops == ()
    assert "lifted by" in admin.get("/stops/").content.decode()


def test_order_lifted_by_somebody_else_is_told_so(admin: Client, house: House) -> None:
    admin.post("/stops/new/", order(house) | SURE)
    stop = Stop.objects.get()
    admin.post(f"/stops/{stop.pk}/lift/")
    response = admin.post(f"/stops/{stop.pk}/lift/", follow=True)
    assert "Somebody has lifted it already" in response.content.decode()


def test_expired_order_is_no_longer_in_force(admin: Client, house: House) -> None:
    now = datetime.now(UTC)
    issue_stop(
        house.tenant,
        StopScope.RUN,
        "r-1",
        reason="x",
        actor=house.admin,
        now=now - timedelta(hours=2),
        expires_at=now - timedelta(hours=1),
    )
    page = admin.get("/stops/").content.decode()
    assert "Nothing is stopped" in page
    assert "its time was over" in page


@pytest.mark.parametrize(
    ("scope", "name", "count"), [("tenant", "", 2), ("job_type", "research", 1), ("run", "nonsense", 0)]
)
def test_count_of_live_runs_is_that_of_the_list(
    admin: Client, house: House, scope: str, name: str, count: int
) -> None:
    insert_live(house.tenant, job_type="research")
    insert_live(house.tenant, job_type="support")
    insert_live(house.sibling, job_type="research")
    query = {"tenant": house.tenant.slug, "scope": scope, "name": name}
    page = admin.get("/runs/live/count/", query, headers={"HX-Request": "true"}).content.decode()
    assert (f"{count} live run" in page) if count else ("No live run is known" in page)


def test_hostile_names_and_reasons_are_only_text(admin: Client, house: House) -> None:
    for payload in PAYLOADS:
        if "\0" in payload:
            continue
        for step in ({}, SURE):
            response = admin.post("/stops/new/", order(house, name=payload[:128], reason=payload) | step)
            assert response.status_code in (200, 302)
            assert b"<script>alert" not in response.content
    assert b"<script>alert" not in admin.get("/stops/").content
