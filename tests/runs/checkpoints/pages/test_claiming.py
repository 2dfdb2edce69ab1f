from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.test import Client

from guardops.tenants.models import Tenant, User
from runs.checkpoints.claims import claim
from runs.models import Checkpoint, CheckpointNote
from tests.factories import make_member
from tests.runs.checkpoints.deciding import decided
from tests.runs.checkpoints.pages.conftest import path_of

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


def test_claim_is_held_and_given_back(desk: Client, ann: User, checkpoint: Checkpoint) -> None:
    page = desk.post(path_of(checkpoint, "claim"), follow=True).content.decode()
    assert "Yours until" in page
    checkpoint.refresh_from_db()
    assert checkpoint.claimed_by == ann
    page = desk.post(path_of(checkpoint, "release"), follow=True).content.decode()
    assert "Released: anybody may claim it." in page
    checkpoint.refresh_from_db()
    assert (checkpoint.state, checkpoint.claimed_by) == ("open", None)


def test_what_another_has_claimed_is_told_and_stays_theirs(
    desk: Client, bob: User, checkpoint: Checkpoint, now: datetime
) -> None:
    claim(checkpoint, actor=bob, now=now)
    for act in ("claim", "release"):
        page = desk.post(path_of(checkpoint, act), follow=True).content.decode()
        assert "Nothing was changed: bob claimed it." in page
    checkpoint.refresh_from_db()
    assert checkpoint.claimed_by == bob


def test_claim_is_prolonged_while_the_page_is_open(
    desk: Client, ann: User, checkpoint: Checkpoint, now: datetime
) -> None:
    claim(checkpoint, actor=ann, now=now - timedelta(minutes=20))
    assert "/renew/" in desk.get(path_of(checkpoint)).content.decode()
    assert desk.post(path_of(checkpoint, "renew"), headers=HTMX).status_code == 204
    checkpoint.refresh_from_db()
    assert checkpoint.lease_until is not None
    assert checkpoint.lease_until > now + timedelta(minutes=25)
    assert checkpoint.version == 2


def test_page_without_a_claim_stops_asking_for_it(
    desk: Client, bob: User, checkpoint: Checkpoint, now: datetime
) -> None:
    claim(checkpoint, actor=bob, now=now)
    assert desk.post(path_of(checkpoint, "renew"), headers=HTMX).status_code == 286
    assert (
        "no claim on this any more" in desk.post(path_of(checkpoint, "renew"), follow=True).content.decode()
    )


def test_checkpoint_is_handed_to_who_may_decide_it(
    desk: Client, bob: User, tenant: Tenant, checkpoint: Checkpoint
) -> None:
    viewer = make_member(tenant, username="viewer")
    for nobody in (viewer.pk, "", "0", "x", "\0"):
        page = desk.post(path_of(checkpoint, "hand-over"), {"to": nobody}, follow=True).content.decode()
        assert "choose somebody who may decide here" in page
    page = desk.post(path_of(checkpoint, "hand-over"), {"to": bob.pk}, follow=True).content.decode()
    assert "Handed over to bob." in page
    checkpoint.refresh_from_db()
    assert checkpoint.claimed_by == bob


def test_decided_checkpoint_is_not_claimed(
    desk: Client, bob: User, checkpoint: Checkpoint, now: datetime
) -> None:
    decided(checkpoint, bob, now)
    page = desk.post(path_of(checkpoint, "claim"), follow=True).content.decode()
    assert "bob decided it (resume)" in page
    checkpoint.refresh_from_db()
    assert checkpoint.state == "decided"


def test_note_is_kept_after_the_decision_too(
    desk: Client, bob: User, checkpoint: Checkpoint, now: datetime
) -> None:
    decided(checkpoint, bob, now)
    response = desk.post(path_of(checkpoint, "note"), {"text": "one\r\ntwo \u202e"}, follow=True)
    assert "two ⟦U+202E⟧" in response.content.decode().replace('<span class="unseen">', "").replace(
        "</span>", ""
    )
    assert CheckpointNote.objects.get().text == "one\ntwo \u202e"


@pytest.mark.parametrize("text", ["", " \r\n ", "x" * 4_097, "a\0b"])
def test_note_that_is_none_is_an_error_of_the_form(desk: Client, checkpoint: Checkpoint, text: str) -> None:
    response = desk.post(path_of(checkpoint, "note"), {"text": text})
    assert "Nothing was saved yet" in response.content.decode()
    assert not CheckpointNote.objects.exists()
