from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.http import HttpResponse
from django.test import Client

from guardops.guard import events
from guardops.guard.events import Action, Outcome
from guardops.tenants.choices import Role
from guardops.tenants.models import User
from runs.choices import StopVerdict
from runs.models import Run, StopReview
from runs.review.stops import review_stop
from tests.factories import make_member, make_run_event
from tests.runs.pages.conftest import Cast

Add = Callable[..., UUID]
Ingest = Callable[..., None]

STOPPED = {"outcome": "halted", "halt_reason": "no_progress"}
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m{{ run }}<img src=x onerror=alert(2)>"


@pytest.fixture
def reviewer(cast: Cast) -> User:
    return make_member(cast.tenant, Role.REVIEWER, username="jo")


@pytest.fixture
def desk(reviewer: User, client: Client) -> Client:
    client.force_login(reviewer)
    return client


def send(client: Client, run_id: UUID, **fields: Any) -> HttpResponse:
    form = {"verdict": "false_stop", "detector": "no_progress", "note": "", "seen": "", **fields}
    return client.post(f"/runs/{run_id}/review/", form)


def by_another(cast: Cast, run_id: UUID, **fields: Any) -> StopReview:
    mara = make_member(cast.tenant, Role.REVIEWER, username="mara")
    values: dict[str, Any] = {
        "verdict": StopVerdict.RIGHT_STOP,
        "detector": "no_progress",
        "note": "It went in circles.",
        "now": datetime.now(UTC) - timedelta(minutes=2),
        "seen": None,
    }
    return review_stop(Run.objects.get(run_id=run_id), actor=mara, **(values | fields))


def test_reviewer_marks_a_false_stop(desk: Client, reviewer: User, add: Add) -> None:
    run_id = add(**STOPPED)
    assert "Mark as false stop" in desk.get(f"/runs/{run_id}/").content.decode()
    response = send(desk, run_id, note="It was paging a real catalogue.")
    assert response.status_code == 302
    assert response["Location"] == f"/runs/{run_id}/?tenant=research"
    review = StopReview.objects.get()
    assert (review.run_id, review.verdict, review.detector, review.by) == (
        run_id,
        "false_stop",
        "no_progress",
        reviewer,
    )
    page = desk.get(f"/runs/{run_id}/").content.decode()
    for said in ("Marked as a false stop.", "False stop", "jo", "It was paging a real catalogue."):
        assert said in page


def test_form_offers_the_reasons_of_the_run_its_own_first(
    desk: Client, ingest: Ingest, now: datetime
) -> None:
    event = make_run_event(
        ended_at=now,
        outcome=Outcome.HALTED,
        halt_reason="cycle_period_2",
        first_reason="repeated_call",
        interventions=[events.Intervention(step=2, action=Action.NUDGE, reason="no_progress")],
    )
    ingest(event)
    page = desk.get(f"/runs/{event.run_id}/review/").content.decode()
    assert re.findall(r'<option value="(\w+)"( selected)?>', page) == [
        ("cycle_period_2", " selected"),
        ("repeated_call", ""),
        ("no_progress", ""),
    ]


def test_would_halt_of_shadow_mode_is_reviewed(desk: Client, add: Add) -> None:
    run_id = add(mode="shadow", would_halt="no_progress")
    assert send(desk, run_id).status_code == 302
    assert StopReview.objects.get().detector == "no_progress"


def test_run_that_nothing_stopped_has_nothing_to_review(desk: Client, add: Add) -> None:
    run_id = add()
    assert "Mark as false stop" not in desk.get(f"/runs/{run_id}/").content.decode()
    for response in (desk.get(f"/runs/{run_id}/review/"), send(desk, run_id)):
        assert response.status_code == 302
    assert not StopReview.objects.exists()
    assert "no stop to review" in desk.get(f"/runs/{run_id}/").content.decode()


def test_viewer_reads_the_review_and_may_not_write_one(cast: Cast, viewer: Client, add: Add) -> None:
    run_id = add(**STOPPED)
    by_another(cast, run_id)
    page = viewer.get(f"/runs/{run_id}/").content.decode()
    assert "It went in circles." in page
    assert f"{run_id}/review/" not in page
    assert viewer.get(f"/runs/{run_id}/review/").status_code == 403
    assert send(viewer, run_id).status_code == 403
    assert StopReview.objects.get().verdict == "right_stop"


def test_operator_who_is_no_member_may_not_review(cast: Cast, client: Client, add: Add) -> None:
    client.force_login(cast.operator)
    run_id = add(**STOPPED)
    assert f"{run_id}/review/" not in client.get(f"/runs/{run_id}/").content.decode()
    assert send(client, run_id).status_code == 403


def test_stop_of_others_is_not_found(cast: Cast, desk: Client, add: Add) -> None:
    for tenant in (cast.sibling, cast.foreign):
        run_id = add(tenant_id=tenant.pk, **STOPPED)
        assert desk.get(f"/runs/{run_id}/review/").status_code == 404
        assert send(desk, run_id).status_code == 404
    assert not StopReview.objects.exists()


def test_second_reviewer_is_told_who_and_when_and_keeps_the_note(cast: Cast, desk: Client, add: Add) -> None:
    run_id = add(**STOPPED)
    by_another(cast, run_id)
    response = send(desk, run_id, note="My own long thought.")
    page = response.content.decode()
    assert response.status_code == 409
    assert re.search(r"<strong><bdi>mara</bdi> marked it</strong>, <time [^>]*>just now", page)
    assert "It went in circles." in page
    assert "My own long thought." in page
    assert StopReview.objects.get().note == "It went in circles."
    (seen,) = re.findall(r'name="seen" value="([^"]+)"', page)
    assert send(desk, run_id, note="My own long thought.", seen=seen).status_code == 302
    assert StopReview.objects.get().note == "My own long thought."


def test_review_is_changed_and_withdrawn(desk: Client, add: Add) -> None:
    run_id = add(**STOPPED)
    send(desk, run_id)
    page = desk.get(f"/runs/{run_id}/review/").content.decode()
    (seen,) = re.findall(r'name="seen" value="([^"]+)"', page)
    send(desk, run_id, verdict="right_stop", seen=seen)
    changed = StopReview.objects.get()
    assert changed.verdict == "right_stop"
    response = send(desk, run_id, seen=changed.at.isoformat(), withdraw="1")
    assert response.status_code == 302
    assert not StopReview.objects.exists()


def test_withdrawing_what_somebody_changed_meanwhile_is_refused(cast: Cast, desk: Client, add: Add) -> None:
    run_id = add(**STOPPED)
    send(desk, run_id)
    seen = StopReview.objects.get().at
    by_another(cast, run_id, seen=seen)
    response = send(desk, run_id, seen=seen.isoformat(), withdraw="1")
    assert response.status_code == 409
    assert StopReview.objects.get().note == "It went in circles."


@pytest.mark.parametrize(
    "fields",
    [
        {"verdict": "maybe"},
        {"verdict": ""},
        {"detector": "made_up"},
        {"note": "x" * 2_001},
        {"note": "a\0b"},
        {"seen": "yesterday"},
        {"seen": "2026-01-01T00:00:00"},
        {"seen": "\0"},
        {"seen": "9" * 5_000},
        {"seen": "9999-12-31T23:59:59.999999+00:00"},
        {"seen": "0001-01-01T00:00:00+14:00"},
    ],
)
def test_nonsense_is_an_error_of_the_form_and_the_note_is_kept(
    desk: Client, add: Add, fields: dict[str, str]
) -> None:
    response = send(desk, add(**STOPPED), **({"note": "kept thought"} | fields))
    assert response.status_code == 200
    page = response.content.decode()
    assert "Nothing was saved yet" in page
    assert "note" in fields or "kept thought" in page
    assert not StopReview.objects.exists()


def test_a_time_with_an_offset_that_no_database_knows_is_no_review_seen(desk: Client, add: Add) -> None:
    response = send(desk, add(**STOPPED), note="kept thought", seen="2026-01-01T00:00:00+00:00:30.5")
    assert response.status_code == 409
    assert "kept thought" in response.content.decode()


def test_hostile_reason_and_note_are_shown_and_kept_to_the_letter(
    desk: Client, ingest: Ingest, now: datetime
) -> None:
    reason = HOSTILE[:64]
    event = make_run_event(ended_at=now, outcome=Outcome.HALTED, halt_reason=reason)
    ingest(event)
    page = desk.get(f"/runs/{event.run_id}/review/").content.decode()
    shown = reason.replace("\u202e", "⟦U+202E⟧").replace("\x1b", "⟦U+001B⟧")
    assert send(desk, event.run_id, detector=shown, note=HOSTILE).status_code == 302
    review = StopReview.objects.get()
    assert (review.detector, review.note) == (reason, HOSTILE)
    for path in ("", "review/"):
        page = desk.get(f"/runs/{event.run_id}/{path}").content.decode()
        assert "&lt;script&gt;" in page
        assert "<img" not in page
        assert not {"\u202e", "\x1b"} & set(page)


def test_id_in_two_tenants_is_reviewed_in_the_one_that_is_named(cast: Cast, client: Client, add: Add) -> None:
    client.force_login(make_member(cast.tenant.organisation, Role.REVIEWER))
    run_id = add(**STOPPED)
    add(run_id=run_id, tenant_id=cast.sibling.pk, **STOPPED)
    form = {"verdict": "false_stop", "detector": "no_progress", "note": "", "seen": ""}
    assert client.post(f"/runs/{run_id}/review/", form).status_code == 404
    assert client.post(f"/runs/{run_id}/review/?tenant=support", form).status_code == 302
    assert StopReview.objects.get().tenant == cast.sibling
