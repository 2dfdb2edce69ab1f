from __future__ import annotations

import html
import re
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.test import Client

from guardops.guard.decisions import DecisionAction
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.checkpoints.choice import Choice
from runs.checkpoints.claims import claim
from runs.checkpoints.decide import undo
from runs.models import Checkpoint, CheckpointNote, Decision
from tests.factories import let_undo_time_pass, make_checkpoint, make_member
from tests.runs.checkpoints.deciding import STOP, decided
from tests.runs.checkpoints.pages.conftest import PAYMENT, filled, path_of, send

pytestmark = pytest.mark.django_db

UNCERTAIN = msgspec.structs.replace(PAYMENT, uncertain=True)


@pytest.fixture
def unsure(tenant: Tenant, now: datetime) -> Checkpoint:
    """A run that may or may not have paid."""
    return make_checkpoint(tenant, opened_at=now, reason="uncertain_write", pending=[UNCERTAIN])


@pytest.mark.parametrize("where", ["page", "form"])
def test_form_that_nobody_has_changed_is_a_decision(
    desk: Client, ann: User, checkpoint: Checkpoint, ceiling: None, where: str
) -> None:
    asked = path_of(checkpoint) if where == "page" else f"{path_of(checkpoint, 'decide')}?action=resume"
    sent = filled(desk.get(asked).content.decode(), "resume")
    response = desk.post(path_of(checkpoint, "decide"), sent)
    assert response.status_code == 302
    assert response["Location"] == "/review/"
    made = Decision.objects.get()
    assert (made.action, made.by, made.version) == ("resume", ann, 1)
    assert made.change == {"blocked_sources": [{"kind": "domain", "name": "mirror.example"}]}
    assert made.reason == "mirror.example was called 14 times and led nowhere: go on with other sources."


def test_resume_takes_what_was_changed_in_it(desk: Client, checkpoint: Checkpoint, ceiling: None) -> None:
    fields = {
        "reason": "the list is longer",
        "input": "look at page 3\r\nand stop there",
        "evidence": "the vendor says 4",
        "blocked_sources": ["domain:acme.test"],
        "budget_steps": "20",
        "budget_seconds": "",
        "budget_cost": "0.60",
        "note": "called the vendor",
    }
    assert send(desk, checkpoint, "resume", **fields).status_code == 302
    made = Decision.objects.get()
    assert made.change == {
        "input": "look at page 3\nand stop there",
        "evidence": "the vendor says 4",
        "blocked_sources": [{"kind": "domain", "name": "acme.test"}],
        "budget": {"steps": 20, "cost": "0.60"},
    }
    assert CheckpointNote.objects.get().text == "called the vendor"


@pytest.mark.parametrize(
    ("action", "fields", "answer"),
    [
        ("answer", {"answer": "It costs 4."}, "It costs 4."),
        ("force_answer", {}, ""),
        ("stop", {"reason": "enough"}, ""),
    ],
)
def test_decision_is_made(
    desk: Client, checkpoint: Checkpoint, action: str, fields: dict[str, str], answer: str
) -> None:
    assert send(desk, checkpoint, action, **fields).status_code == 302
    made = Decision.objects.get()
    assert (made.action, made.answer) == (action, answer)


def test_refused_call_is_approved_as_it_stands(desk: Client, tenant: Tenant, now: datetime) -> None:
    asking = make_checkpoint(tenant, opened_at=now, reason="approval_required", refused=PAYMENT)
    sent = filled(desk.get(path_of(asking)).content.decode(), "approve")
    desk.post(path_of(asking, "decide"), sent)
    made = Decision.objects.get()
    assert (made.action, made.tool, made.args_hash) == ("approve", PAYMENT.tool, PAYMENT.args_hash)


def test_stop_says_that_it_went_out_since_no_bar_does(desk: Client, checkpoint: Checkpoint) -> None:
    response = desk.post(path_of(checkpoint, "decide"), {"action": "stop", "version": 1}, follow=True)
    assert "Stopped. It went out at once." in response.content.decode()


def test_writes_of_unknown_outcome_are_asked_for_first(desk: Client, unsure: Checkpoint) -> None:
    page = send(desk, unsure, "force_answer", reason="kept reason").content.decode()
    assert "First say whether each write of unknown outcome happened" in page
    assert "kept reason" in page
    assert not Decision.objects.exists()
    assert send(desk, unsure, "force_answer", happened_0="no").status_code == 302
    assert Decision.objects.get().reconciled == [
        {"tool": PAYMENT.tool, "args_hash": PAYMENT.args_hash, "happened": False}
    ]


def test_stop_needs_no_answer_on_writes(desk: Client, unsure: Checkpoint) -> None:
    assert send(desk, unsure, "stop").status_code == 302
    assert Decision.objects.get().reconciled == []


@pytest.mark.parametrize(
    ("action", "fields", "said"),
    [
        ("resume", {"reason": "x"}, "Change something"),
        ("resume", {"input": "x"}, "Say why going on makes sense"),
        ("resume", {"reason": "x", "budget_steps": "21"}, "At most 20 may be added here"),
        ("resume", {"reason": "x", "budget_cost": "2.01"}, "At most 2 may be added here"),
        ("resume", {"reason": "x", "budget_cost": "NaN"}, "Enter a number"),
        ("resume", {"reason": "x", "budget_steps": "9" * 5_000}, "Enter a whole number"),
        ("resume", {"reason": "x", "budget_steps": "-1"}, "greater than or equal to 0"),
        ("resume", {"reason": "x", "blocked_sources": "domain:made-up.example"}, "Select a valid choice"),
        ("resume", {"reason": "a\0b", "input": "x"}, "Null characters are not allowed"),
        ("resume", {"reason": "x" * 4_097, "input": "x"}, "at most 4096 characters"),
        ("answer", {"answer": " \r\n"}, "Write the answer that the agent should give"),
        ("approve", {}, "No call of this run waits for approval"),
        ("stop", {"version": "one"}, "open the page again"),
        ("stop", {"version": "9" * 5_000}, "open the page again"),
        ("stop", {"version": "0"}, "open the page again"),
    ],
)
def test_what_is_no_decision_is_an_error_of_the_form_and_the_note_is_kept(
    desk: Client, checkpoint: Checkpoint, ceiling: None, action: str, fields: dict[str, Any], said: str
) -> None:
    response = send(desk, checkpoint, action, **({"note": "kept thought"} | fields))
    page = response.content.decode()
    assert response.status_code == 200
    assert "Nothing was decided yet" in page
    assert said in page
    assert "kept thought" in page
    assert not Decision.objects.exists()


@pytest.mark.parametrize("action", ["", "resume ", "undo", "\0", "<script>"])
def test_action_that_is_none_leads_back(desk: Client, checkpoint: Checkpoint, action: str) -> None:
    response = send(desk, checkpoint, action)
    assert (response.status_code, response["Location"]) == (302, f"{path_of(checkpoint)}?tenant=acme")


def test_nothing_may_be_added_where_the_policy_names_no_ceiling(desk: Client, checkpoint: Checkpoint) -> None:
    page = desk.get(f"{path_of(checkpoint, 'decide')}?action=resume").content.decode()
    assert "The policy lets nobody add steps, time or money here." in page
    send(desk, checkpoint, "resume", reason="x", budget_steps="5")
    assert not Decision.objects.exists()


def test_loser_is_told_who_decided_and_when_and_keeps_the_note(
    desk: Client, bob: User, checkpoint: Checkpoint, now: datetime
) -> None:
    decided(checkpoint, bob, now - timedelta(minutes=2), STOP)
    response = send(desk, checkpoint, "answer", answer="It costs 4.", note="My own long thought.")
    page = response.content.decode()
    assert response.status_code == 409
    assert re.search(r"<strong><bdi>bob</bdi> decided it \(stop\)</strong>, <time [^>]*>2.min ago", page)
    [kept] = re.findall(r'<textarea name="text".*?>(.*?)</textarea>', page, re.DOTALL)
    assert kept.strip() == "My own long thought.\n\nIt costs 4."
    assert desk.post(path_of(checkpoint, "note"), {"text": kept}).status_code == 302
    assert CheckpointNote.objects.get().text == kept.strip()
    assert Decision.objects.get().by == bob


def test_who_lost_to_a_claim_may_send_the_same_again(
    desk: Client, bob: User, checkpoint: Checkpoint, ceiling: None, now: datetime
) -> None:
    claim(checkpoint, actor=bob, now=now)
    fields = {
        "reason": "it is further on",
        "blocked_sources": ["domain:acme.test", "domain:mirror.example"],
        "budget_steps": "7",
        "note": "mine",
    }
    response = send(desk, checkpoint, "resume", **fields)
    page = response.content.decode()
    assert response.status_code == 409
    assert "<bdi>bob</bdi> claimed it" in page
    assert not Decision.objects.exists()
    again = filled(page, "resume")
    assert again["version"] == ["2"]
    assert desk.post(path_of(checkpoint, "decide"), again).status_code == 302
    made = Decision.objects.get()
    assert made.reason == "it is further on"
    assert made.change == {
        "blocked_sources": [
            {"kind": "domain", "name": "mirror.example"},
            {"kind": "domain", "name": "acme.test"},
        ],
        "budget": {"steps": 7},
    }


def test_second_tap_on_one_button_is_no_race(desk: Client, checkpoint: Checkpoint) -> None:
    for _ in range(2):
        response = send(desk, checkpoint, "force_answer")
        assert (response.status_code, response["Location"]) == (302, "/review/")
    assert Decision.objects.count() == 1


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("stop", {}),
        ("answer", {"answer": "It costs 5."}),
        ("answer", {"answer": "It costs 4.", "reason": "the vendor says so"}),
        ("answer", {"answer": "It costs 4.", "note": "called the vendor"}),
    ],
)
def test_own_form_that_says_something_else_is_told_that_it_came_too_late(
    desk: Client, checkpoint: Checkpoint, action: str, fields: dict[str, str]
) -> None:
    send(desk, checkpoint, "answer", answer="It costs 4.")
    response = send(desk, checkpoint, action, **fields)
    page = response.content.decode()
    assert response.status_code == 409
    assert "<bdi>ann</bdi> decided it (answer)" in page
    assert all(text in page for text in fields.values())
    made = Decision.objects.get()
    assert (made.action, made.answer) == ("answer", "It costs 4.")


def test_decision_leads_to_what_waits_next_in_the_list_that_it_came_from(
    desk: Client, tenant: Tenant, checkpoint: Checkpoint, now: datetime
) -> None:
    following = make_checkpoint(tenant, opened_at=now + timedelta(minutes=1))
    response = send(desk, checkpoint, "force_answer", next="/review/?tenant=acme&job=research")
    assert response["Location"] == f"/review/?tenant=acme&job=research#row-acme-{following.checkpoint_id.hex}"


@pytest.mark.parametrize(
    "address", ["//attacker.example/review/", "https://attacker.example", "/runs/", "/review/\\@x", "\0"]
)
def test_decision_leads_nowhere_else(desk: Client, checkpoint: Checkpoint, address: str) -> None:
    response = send(desk, checkpoint, "force_answer", next=address)
    assert response["Location"].partition("#")[0].startswith("/review/")
    assert "attacker" not in response["Location"]


def test_list_that_somebody_came_from_holds_nothing_that_shows_as_something_else(
    desk: Client, checkpoint: Checkpoint
) -> None:
    came_from = {"next": "/review/?q=\u202egnp&job=caf\u00e9"}
    page = desk.get(path_of(checkpoint), came_from).content.decode()
    assert "\u202e" not in page
    assert "/review/?q=%E2%80%AEgnp&amp;job=caf%C3%A9" in page


def test_decision_is_taken_back_and_its_form_begins_with_what_was_written(
    desk: Client, checkpoint: Checkpoint, ceiling: None
) -> None:
    send(desk, checkpoint, "resume", reason="my reason", input="my words", budget_steps="3")
    made = Decision.objects.get()
    response = desk.post(path_of(checkpoint, "undo"), {"decision": made.pk}, follow=True)
    page = response.content.decode()
    assert "Taken back. Nothing was sent" in page
    made.refresh_from_db()
    assert made.undone_at is not None
    sent = filled(page, "resume")
    assert (sent["reason"], sent["input"], sent["budget_steps"]) == (["my reason"], ["my words"], ["3"])
    assert "blocked_sources" not in sent
    assert "3 more steps" in page
    assert desk.post(path_of(checkpoint, "decide"), sent).status_code == 302


def test_answers_on_writes_are_kept_when_the_decision_is_taken_back(
    desk: Client, ann: User, unsure: Checkpoint
) -> None:
    send(desk, unsure, "force_answer", happened_0="no", reason="r")
    desk.post(path_of(unsure, "undo"), {"decision": Decision.objects.get().pk})
    sent = filled(desk.get(path_of(unsure)).content.decode(), "force_answer")
    assert sent["happened_0"] == ["no"]


def test_decision_that_is_on_its_way_is_not_taken_back(desk: Client, checkpoint: Checkpoint) -> None:
    send(desk, checkpoint, "force_answer")
    made = let_undo_time_pass(Decision.objects.get())
    response = desk.post(path_of(checkpoint, "undo"), {"decision": made.pk}, follow=True)
    assert "Too late: the decision is on its way" in response.content.decode()
    made.refresh_from_db()
    assert made.undone_at is None


def test_taking_back_twice_says_who_did_it(
    desk: Client, tenant: Tenant, checkpoint: Checkpoint, now: datetime
) -> None:
    send(desk, checkpoint, "force_answer")
    made = Decision.objects.get()
    undo(made, actor=make_member(tenant, Role.REVIEWER, username="b\u1160ob"), now=now)
    response = desk.post(path_of(checkpoint, "undo"), {"decision": made.pk}, follow=True)
    said = "Nothing to take back: b\u27e6U+1160\u27e7ob took the decision back."
    assert said in html.unescape(response.content.decode())


def test_decision_of_another_checkpoint_is_not_found(
    desk: Client, ann: User, tenant: Tenant, checkpoint: Checkpoint, now: datetime
) -> None:
    other = decided(make_checkpoint(tenant, opened_at=now), ann, now, Choice(DecisionAction.FORCE_ANSWER))
    for named in (other.pk, "made-up", ""):
        assert desk.post(path_of(checkpoint, "undo"), {"decision": named}).status_code == 404
    other.refresh_from_db()
    assert other.undone_at is None


def test_form_of_what_is_decided_leads_to_the_decision(
    desk: Client, bob: User, checkpoint: Checkpoint, now: datetime
) -> None:
    decided(checkpoint, bob, now, STOP)
    response = desk.get(f"{path_of(checkpoint, 'decide')}?action=resume")
    assert (response.status_code, response["Location"]) == (302, f"{path_of(checkpoint)}?tenant=acme")
