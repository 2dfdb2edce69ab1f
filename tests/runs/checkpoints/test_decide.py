from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from guardops.guard.checkpoints import PendingCall
from guardops.guard.decisions import AddedBudget, BlockedForTask, DecisionAction, Reconciled
from guardops.guard.events import SourceKind
from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import Tenant, User
from policies.publish.policies import Place, save_policy
from runs.checkpoints.choice import UNDO, Choice
from runs.checkpoints.claims import claim
from runs.checkpoints.decide import MAX_AT_ONCE, decide_many, undo
from runs.checkpoints.errors import CheckpointChanged, InvalidDecision
from runs.checkpoints.waits import SWEEP_SECONDS
from runs.models import Checkpoint, CheckpointNote, Decision
from tests.factories import let_undo_time_pass, make_checkpoint

from .deciding import STOP, decided, resume

pytestmark = pytest.mark.django_db

CALL = PendingCall(tool="send_mail", args_hash="h1", args="{}", side_effect="side_effect")
WRITE = PendingCall(tool="book", args_hash="h2", side_effect="write", uncertain=True)


def allow(tenant: Tenant, now: datetime, **most: Any) -> None:
    place = Place(tenant.organisation, tenant, "research")
    save_policy(place, {"review": {"resume_max": most}}, seen=0, actor=SYSTEM, now=now)


def refusal(
    checkpoint: Checkpoint, by: User, now: datetime, choice: Choice, version: int | None = None
) -> str:
    """Return the code that a choice is refused with; the checkpoint must stay as it is."""
    with pytest.raises(InvalidDecision) as refused:
        decided(checkpoint, by, now, choice, version)
    assert Checkpoint.objects.get(pk=checkpoint.pk).version == checkpoint.version
    return refused.value.code


def test_decision_binds_checkpoint_artifact_and_version(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    made = decided(checkpoint, ann, now, replace(resume(), note="talked to Kim"))
    assert (made.action, made.by, made.version) == ("resume", ann, 1)
    assert made.artifact_digest == checkpoint.artifact_digest
    assert made.expires_at == checkpoint.expires_at
    assert made.change == {"input": "look at page 3"}
    checkpoint.refresh_from_db()
    assert (checkpoint.state, checkpoint.version, checkpoint.last_by) == ("decided", 2, ann)
    assert CheckpointNote.objects.get().text == "talked to Kim"


def test_stop_goes_at_once_and_all_else_in_ten_seconds(tenant: Tenant, ann: User, now: datetime) -> None:
    at_once = decided(make_checkpoint(tenant, opened_at=now), ann, now, STOP)
    later = decided(make_checkpoint(tenant, opened_at=now), ann, now)
    assert timedelta(seconds=9) < later.deliver_at - at_once.deliver_at < timedelta(seconds=20)


def test_decision_on_an_old_version_is_told_who_changed_it(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    claim(checkpoint, actor=bob, now=now)
    with pytest.raises(CheckpointChanged) as told:
        decided(checkpoint, ann, now, version=1)
    assert (told.value.change.by, told.value.change.did) == ("bob", "claimed it")
    assert not Decision.objects.exists()


def test_claim_of_another_keeps_nobody_who_knows_of_it_from_deciding(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    claimed = claim(checkpoint, actor=bob, now=now)
    assert decided(claimed, ann, now).by == ann


def test_second_decision_is_told_of_the_first(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    decided(checkpoint, ann, now, STOP)
    with pytest.raises(CheckpointChanged) as told:
        decided(checkpoint, bob, now + timedelta(seconds=3))
    assert (told.value.change.by, told.value.change.at) == ("ann", now)
    assert told.value.change.did == "decided it (stop)"
    assert told.value.current.decided is not None


@pytest.mark.parametrize(
    ("choice", "code"),
    [
        (Choice(DecisionAction.RESUME, reason="again"), "no_change"),
        (replace(resume(), reason="  "), "no_reason"),
        (replace(resume(input="   "), reason="x"), "no_change"),
        (Choice(DecisionAction.ANSWER), "no_answer"),
        (Choice(DecisionAction.APPROVE, reason="fine"), "not_offered"),
        (resume(budget=AddedBudget(steps=1)), "above_ceiling"),
        (resume(budget=AddedBudget(steps=0)), "no_change"),
        (resume(budget=AddedBudget(cost=Decimal("NaN"))), "above_ceiling"),
        (resume(budget=AddedBudget(steps=-5)), "above_ceiling"),
        (resume(blocked_sources=(BlockedForTask(kind=SourceKind.DOMAIN, name="co.uk"),)), "invalid_source"),
        (resume(input="a\0b"), "invalid_text"),
        (resume(input="a\ud800b"), "invalid_text"),
        (resume(input="x" * 4_097), "invalid_text"),
        (replace(STOP, reason="x" * 4_097), "invalid_text"),
        (replace(STOP, reconciled=(Reconciled(tool="t", args_hash="h", happened=True),)), "not_offered"),
    ],
)
def test_what_is_no_decision_is_refused(
    checkpoint: Checkpoint, ann: User, now: datetime, choice: Choice, code: str
) -> None:
    assert refusal(checkpoint, ann, now, choice) == code


def test_resume_adds_what_the_policy_allows_and_no_more(
    tenant: Tenant, checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    allow(tenant, now, steps=20, cost="1.50")
    refused = [
        AddedBudget(steps=21),
        AddedBudget(seconds=1),
        AddedBudget(cost=Decimal("1.500001")),
    ]
    for budget in refused:
        assert refusal(checkpoint, ann, now, resume(budget=budget)) == "above_ceiling"
    made = decided(checkpoint, ann, now, resume(budget=AddedBudget(steps=20, cost=Decimal("1.50"))))
    assert made.change == {"budget": {"steps": 20, "cost": "1.50"}}


def test_blocked_sources_are_named_as_guards_know_them(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    names = ("https://www.Mirror.example/p?page=2", "mirror.example", "203.0.113.7")
    sources = tuple(BlockedForTask(kind=SourceKind.DOMAIN, name=name) for name in names)
    made = decided(checkpoint, ann, now, resume(blocked_sources=sources))
    assert [source["name"] for source in made.change["blocked_sources"]] == ["mirror.example", "203.0.113.7"]


def test_write_of_unknown_outcome_is_reconciled_first(tenant: Tenant, ann: User, now: datetime) -> None:
    checkpoint = make_checkpoint(tenant, opened_at=now, pending=[WRITE])
    assert refusal(checkpoint, ann, now, resume()) == "not_reconciled"
    told = (Reconciled(tool="book", args_hash="h2", happened=True),)
    made = decided(checkpoint, ann, now, replace(resume(), reconciled=told))
    assert made.reconciled == [{"tool": "book", "args_hash": "h2", "happened": True}]


def test_stop_needs_nothing_reconciled(tenant: Tenant, ann: User, now: datetime) -> None:
    checkpoint = make_checkpoint(tenant, opened_at=now, pending=[WRITE])
    assert decided(checkpoint, ann, now, STOP).action == "stop"


def test_approval_names_the_one_call_that_was_refused(tenant: Tenant, ann: User, now: datetime) -> None:
    checkpoint = make_checkpoint(tenant, opened_at=now, reason="approval_required", refused=CALL)
    made = decided(checkpoint, ann, now, Choice(DecisionAction.APPROVE))
    assert (made.tool, made.args_hash) == ("send_mail", "h1")


def test_answer_is_kept_and_a_change_beside_it_is_not(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    choice = replace(resume(), action=DecisionAction.ANSWER, answer=" 42 EUR ")
    made = decided(checkpoint, ann, now, choice)
    assert (made.answer, made.change) == ("42 EUR", {})


def test_decision_that_could_not_be_taken_up_in_time_is_refused_but_for_a_stop(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    # Once it can't be undone any more, a gate that nobody notifies still has to look.
    late = checkpoint.expires_at - UNDO - timedelta(seconds=2 * SWEEP_SECONDS)
    assert refusal(checkpoint, ann, late, resume()) == "too_late"
    assert decided(checkpoint, ann, late, STOP).action == "stop"


def test_nothing_is_decided_after_expiry(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    with pytest.raises(CheckpointChanged):
        decided(checkpoint, ann, checkpoint.expires_at, STOP)


def test_undone_decision_is_claimed_by_whoever_took_it_back(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    made = decided(checkpoint, ann, now)
    undone = undo(made, actor=bob, now=now + timedelta(seconds=4))
    assert (undone.state, undone.claimed_by, undone.decided) == ("claimed", bob, None)
    made.refresh_from_db()
    assert (made.undone_by, made.undone_at) == (bob, now + timedelta(seconds=4))
    again = decided(undone, ann, now + timedelta(seconds=9), STOP)
    assert list(Decision.objects.standing()) == [again]


def test_undone_decision_can_not_be_undone_again(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made = decided(checkpoint, ann, now)
    undo(made, actor=ann, now=now)
    with pytest.raises(CheckpointChanged):
        undo(made, actor=ann, now=now)


def test_undo_after_ten_seconds_is_too_late(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made = let_undo_time_pass(decided(checkpoint, ann, now))
    with pytest.raises(InvalidDecision) as refused:
        undo(made, actor=ann, now=now)
    assert refused.value.code == "too_late"
    assert Checkpoint.objects.get().state == "decided"


def test_stop_can_not_be_undone(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    made = decided(checkpoint, ann, now, STOP)
    with pytest.raises(InvalidDecision):
        undo(made, actor=ann, now=now)


def test_audit_names_who_decided_and_who_took_it_back(
    checkpoint: Checkpoint, ann: User, bob: User, now: datetime
) -> None:
    undo(decided(checkpoint, ann, now), actor=bob, now=now)
    trail = Decision.pgh_event_model.objects.order_by("pgh_id")  # type: ignore[attr-defined]
    actors = [(row.pgh_label, row.pgh_context["actor"]["name"]) for row in trail]
    assert actors == [("insert", "ann"), ("update", "bob")]


def test_conflict_in_a_bulk_undoes_none_of_the_others(
    tenant: Tenant, ann: User, bob: User, now: datetime
) -> None:
    made = [make_checkpoint(tenant, opened_at=now) for _ in range(3)]
    pairs = [(checkpoint, checkpoint.version) for checkpoint in made]
    decided(made[1], bob, now, STOP)
    results = decide_many(pairs, STOP, actor=ann, now=now)
    assert [result.error is None for result in results] == [True, False, True]
    assert isinstance(results[1].error, CheckpointChanged)
    assert results[1].error.change.by == "bob"
    assert Decision.objects.filter(by=ann).count() == 2


def test_bulk_of_more_than_a_hundred_is_refused(checkpoint: Checkpoint, ann: User, now: datetime) -> None:
    with pytest.raises(ValueError, match="100"):
        decide_many([(checkpoint, 1)] * (MAX_AT_ONCE + 1), STOP, actor=ann, now=now)
