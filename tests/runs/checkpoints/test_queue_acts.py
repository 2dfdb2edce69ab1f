"""What is done from the queue: rows claimed, given back and undone in place, and several decided alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from guardops.guard.checkpoints import PendingCall
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from policies.publish.policies import Place, save_policy
from runs.checkpoints.claims import claim
from runs.models import Checkpoint, Decision
from tests.factories import let_undo_time_pass, make_checkpoint, make_key, make_member, make_tenant

from .deciding import decided

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
WRITE = PendingCall(tool="pay", args_hash="ab" * 8, side_effect="write", uncertain=True)
Opened = Callable[..., Checkpoint]


@pytest.fixture
def opened(tenant: Tenant, now: datetime) -> Opened:
    def opened(minutes: int = 5, of: Tenant | None = None, **fields: Any) -> Checkpoint:
        return make_checkpoint(of or tenant, opened_at=now - timedelta(minutes=minutes), **fields)

    return opened


@pytest.fixture
def desk(client: Client, ann: User) -> Client:
    client.force_login(ann)
    return client


def token(checkpoint: Checkpoint) -> str:
    return f"{checkpoint.tenant.slug}:{checkpoint.checkpoint_id}"


def as_now(checkpoint: Checkpoint) -> Checkpoint:
    found: Checkpoint = Checkpoint.objects.select_related("tenant", "claimed_by").get(pk=checkpoint.pk)
    return found


def preview(client: Client, action: str, *chosen: Checkpoint) -> Any:
    return client.post("/review/bulk/", {"action": action, "pick": [token(one) for one in chosen]})


def confirm(client: Client, page: Any, **fields: Any) -> Any:
    """Send the form of a preview."""
    picks = re.findall(r'name="pick" value="([^"]+)"', page.content.decode())
    action = page.context["action"]
    return client.post("/review/bulk/", {"action": action, "pick": picks, "do": "1", **fields})


def told(page: Any) -> list[tuple[int, str]]:
    """Return what the page says of each: its checkpoint, and why nothing was decided."""
    return [(one.row.checkpoint.pk, one.problem) for one in page.context["told"]]


# One row


def test_row_is_claimed_and_given_back_where_it_stands(desk: Client, opened: Opened, ann: User) -> None:
    checkpoint = opened()
    row = desk.post("/review/act/", {"claim": token(checkpoint)}, headers=HTMX).content.decode()
    assert row.strip().startswith(f'<tr role="row" id="row-acme-{checkpoint.checkpoint_id.hex}">')
    assert 'name="release"' in row
    assert as_now(checkpoint).claimed_by == ann
    row = desk.post("/review/act/", {"release": token(checkpoint)}, headers=HTMX).content.decode()
    assert 'name="claim"' in row
    assert as_now(checkpoint).state == "open"


def test_without_scripts_the_list_is_shown_again_as_it_was(desk: Client, opened: Opened) -> None:
    form = {"claim": token(opened()), "query": "job=research&size=3"}
    assert desk.post("/review/act/", form).headers["Location"] == "/review/?job=research&size=3"
    away = desk.post("/review/act/", {**form, "query": "https://evil.example/"}).headers["Location"]
    assert away.startswith("/review/?")


def test_row_that_somebody_else_claimed_says_who(
    desk: Client, opened: Opened, bob: User, now: datetime
) -> None:
    checkpoint = opened()
    claim(checkpoint, actor=bob, now=now)
    row = desk.post("/review/act/", {"claim": token(checkpoint)}, headers=HTMX).content.decode()
    assert "bob claimed it before you" in row
    assert as_now(checkpoint).claimed_by == bob


def test_without_scripts_who_was_first_is_named_as_anything_that_others_wrote(
    desk: Client, opened: Opened, tenant: Tenant, now: datetime
) -> None:
    checkpoint = opened()
    claim(checkpoint, actor=make_member(tenant, Role.REVIEWER, username="b\u1160ob"), now=now)
    page = desk.post("/review/act/", {"claim": token(checkpoint)}, follow=True).content.decode()
    assert "b\u27e6U+1160\u27e7ob claimed it before you" in page
    assert "\u1160" not in page


def test_decision_is_taken_back_from_the_row_until_it_can_go_out(
    desk: Client, opened: Opened, ann: User, now: datetime
) -> None:
    early, late = opened(), opened()
    decided(early, ann, now)
    let_undo_time_pass(decided(late, ann, now))
    desk.post("/review/act/", {"undo": token(early)})
    assert (as_now(early).state, as_now(early).claimed_by) == ("claimed", ann)
    row = desk.post("/review/act/", {"undo": token(late)}, headers=HTMX).content.decode()
    assert "on its way" in row
    assert as_now(late).state == "decided"


@pytest.mark.parametrize("act", ["claim", "release", "undo"])
def test_reader_may_not_act_and_a_stranger_learns_of_nothing(
    client: Client, tenant: Tenant, opened: Opened, act: str
) -> None:
    checkpoint = opened()
    client.force_login(make_member(tenant, Role.VIEWER))
    assert client.post("/review/act/", {act: token(checkpoint)}).status_code == 403
    client.force_login(make_member(make_tenant("elsewhere"), Role.ADMIN))
    assert client.post("/review/act/", {act: token(checkpoint)}).status_code == 404
    assert as_now(checkpoint).version == checkpoint.version


@pytest.mark.parametrize("text", ["", "acme", "acme:x", ":", "acme:\0", "acme:" + "9" * 400, "\ud800:x"])
def test_name_of_no_row_is_not_found(desk: Client, opened: Opened, text: str) -> None:
    opened()
    form = {"claim": text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")}
    assert desk.post("/review/act/", form).status_code == 404


@pytest.mark.parametrize("path", ["/review/act/", "/review/bulk/"])
def test_key_decides_nothing(
    client: Client, tenant: Tenant, opened: Opened, path: str, now: datetime
) -> None:
    checkpoint = opened()
    _, key = make_key(tenant, scopes=["events:write", "bundle:read", "checkpoints"], now=now)
    form = {"claim": token(checkpoint), "action": "stop", "pick": f"{token(checkpoint)}:1", "do": "1"}
    answer = client.post(path, form, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 403
    assert as_now(checkpoint).version == checkpoint.version


# Several


def test_nothing_is_decided_before_a_preview_has_named_it(desk: Client, opened: Opened) -> None:
    first, second = opened(2), opened(1)
    page = preview(desk, "stop", first, second)
    assert "Stop the run: 2 checkpoints" in page.content.decode()
    assert {as_now(one).state for one in (first, second)} == {"open"}
    # Neither does a form that no preview has filled in.
    desk.post("/review/bulk/", {"action": "stop", "do": "1", "pick": token(first)})
    assert as_now(first).state == "open"


def test_each_gets_its_result_and_a_conflict_holds_up_no_other(
    desk: Client, opened: Opened, bob: User, now: datetime
) -> None:
    first, taken, gone, last = (opened(minutes) for minutes in (4, 3, 2, 1))
    page = preview(desk, "stop", first, taken, gone, last)
    claim(taken, actor=bob, now=now)
    decided(gone, bob, now)
    done = confirm(desk, page, reason="enough")
    problems = dict(told(done))
    assert list(problems) == [first.pk, taken.pk, gone.pk, last.pk]
    assert (problems[first.pk], problems[last.pk]) == ("", "")
    assert "bob claimed it before you" in problems[taken.pk]
    assert "bob decided it" in problems[gone.pk]
    assert [as_now(one).state for one in (first, taken, gone, last)] == [
        "decided",
        "claimed",
        "decided",
        "decided",
    ]
    assert "Stopped: 2 of 4" in done.content.decode()
    made = Decision.objects.filter(checkpoint__in=[first, last])
    assert {(one.action, one.reason, one.by.get_username()) for one in made} == {("stop", "enough", "ann")}


def test_preview_leaves_out_what_cannot_be_decided_with_others_and_says_why(
    desk: Client, tenant: Tenant, opened: Opened, ann: User, bob: User, now: datetime
) -> None:
    fine, unsure, gone = opened(), opened(pending=[WRITE]), opened()
    decided(gone, bob, now)
    page = preview(desk, "force_answer", fine, unsure, gone)
    left = {one.row.checkpoint.pk: one.why_not for one in page.context["left"]}
    assert [one.row.checkpoint.pk for one in page.context["ready"]] == [fine.pk]
    assert "may have happened" in left[unsure.pk]
    assert left[gone.pk] == "bob decided it."
    stop = preview(desk, "stop", fine, unsure)
    assert len(stop.context["ready"]) == 2


def test_preview_names_who_works_on_one(desk: Client, opened: Opened, bob: User, now: datetime) -> None:
    checkpoint = opened()
    claim(checkpoint, actor=bob, now=now)
    assert "bob works on it" in preview(desk, "stop", checkpoint).content.decode()


def test_what_one_may_only_read_is_left_out_and_what_is_foreign_is_not_known(
    client: Client, tenant: Tenant, opened: Opened
) -> None:
    sibling = make_tenant("globex", organisation=tenant.organisation)
    reviewer = make_member(tenant.organisation)
    client.force_login(reviewer)
    assert preview(client, "stop", opened()).status_code == 403
    client.force_login(make_member(sibling, Role.REVIEWER))
    foreign, own = opened(), opened(of=sibling)
    page = preview(client, "stop", foreign, own)
    assert page.context["unknown"] == 1
    assert [one.row.checkpoint.pk for one in page.context["ready"]] == [own.pk]


def test_more_than_a_hundred_are_refused(desk: Client, opened: Opened, tenant: Tenant) -> None:
    one = opened()
    many = [f"acme:{number:032x}:1" for number in range(100)]
    page = desk.post("/review/bulk/", {"action": "stop", "do": "1", "pick": [*many, f"{token(one)}:1"]})
    assert "More than 100 were chosen" in page.content.decode()
    assert as_now(one).state == "open"


def test_resume_needs_a_change_and_a_reason(desk: Client, opened: Opened) -> None:
    first, second = opened(2), opened(1)
    page = preview(desk, "resume", first, second)
    for fields, problem in (
        ({"reason": "go on"}, "Change something"),
        ({"input": "Read the vendor’s page."}, "Say why going on makes sense now."),
    ):
        refused = confirm(desk, page, **fields)
        assert problem in refused.content.decode()
        assert as_now(first).state == "open"
    done = confirm(desk, page, reason="go on", input="Read the vendor’s page.")
    assert [problem for _, problem in told(done)] == ["", ""]
    changes = Decision.objects.filter(checkpoint__in=[first, second]).values_list("change", flat=True)
    assert [change["input"] for change in changes] == ["Read the vendor’s page."] * 2


def test_resume_offers_what_every_policy_allows(
    desk: Client, tenant: Tenant, opened: Opened, ann: User, now: datetime
) -> None:
    for job, steps in (("research", 20), ("coding", 8)):
        document = {"review": {"resume_max": {"steps": steps}}}
        save_policy(Place(tenant.organisation, tenant, job), document, seen=0, actor=SYSTEM, now=now)
    chosen = [opened(2), opened(1, job_type="coding")]
    page = preview(desk, "resume", *chosen)
    assert "At most 8 for each." in page.content.decode()
    assert "may be added to each" in confirm(desk, page, reason="go on", budget_steps="9").content.decode()
    confirm(desk, page, reason="go on", budget_steps="8")
    changes = Decision.objects.filter(checkpoint__in=chosen).values_list("change", flat=True)
    assert [change["budget"]["steps"] for change in changes] == [8, 8]


def test_preview_asks_the_database_no_more_for_more_of_a_kind(desk: Client, opened: Opened) -> None:
    counts, one = [], [token(opened())]
    for picks in (one, one, [token(opened()) for _ in range(5)]):  # the first fills the caches
        with CaptureQueriesContext(connection) as asked:
            desk.post("/review/bulk/", {"action": "resume", "pick": picks})
        counts.append(len(asked))
    assert counts[1] == counts[2]


def test_all_are_taken_back_together_while_nobody_has_them(
    desk: Client, opened: Opened, ann: User, bob: User, now: datetime
) -> None:
    first, second = opened(2), opened(1)
    theirs = decided(opened(3), bob, now)
    done = confirm(desk, preview(desk, "force_answer", first, second))
    undo = re.findall(r'name="undo" value="([^"]+)"', done.content.decode())
    assert len(undo) == 2
    let_undo_time_pass(Decision.objects.get(checkpoint=second))
    back = desk.post("/review/bulk/", {"action": "force_answer", "undo": [*undo, str(theirs.pk), "x"]})
    assert [bool(problem) for _, problem in told(back)] == [False, True]
    assert [as_now(one).state for one in (first, second)] == ["claimed", "decided"]
    assert Decision.objects.get(pk=theirs.pk).undone_at is None


def test_stop_can_not_be_taken_back(desk: Client, opened: Opened) -> None:
    done = confirm(desk, preview(desk, "stop", opened()))
    assert 'name="undo"' not in done.content.decode()


@pytest.mark.parametrize(
    "form",
    [{}, {"action": "answer", "do": "1"}, {"action": "stop", "pick": ["x", ":", "a:b:c"]}, {"undo": "x"}],
)
def test_form_that_names_nothing_changes_nothing(
    desk: Client, opened: Opened, form: dict[str, str | Sequence[str]]
) -> None:
    checkpoint = opened()
    assert desk.post("/review/bulk/", form).status_code == 200
    assert desk.get("/review/bulk/").status_code == 200
    assert as_now(checkpoint).version == checkpoint.version
