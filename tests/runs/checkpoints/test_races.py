"""Many at once, each with a connection of its own: one wins, and the others are told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from guardops.guard.decisions import Consume
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant
from runs.checkpoints.claims import claim
from runs.checkpoints.decide import undo
from runs.checkpoints.deliver import consume, read_reply
from runs.checkpoints.errors import AlreadyConsumed, CheckpointChanged, InvalidDecision
from runs.checkpoints.timeouts import expire_due, sweep_checkpoints
from runs.models import Checkpoint, Decision
from tests.factories import let_undo_time_pass, make_checkpoint, make_member, make_run_id, make_tenant

from .deciding import decided, resume

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant("acme")


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Do all of it at the same moment; return what each returned or raised."""
    barrier = Barrier(len(works))

    def work(do: Callable[[], Any]) -> Any:
        try:
            with connection.cursor() as cursor:  # connected before the start
                cursor.execute("SELECT 1")
            barrier.wait(timeout=20)
            return do()
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(work, works))


def test_of_32_reviewers_one_decides_and_31_are_told_who_and_when(tenant: Tenant, now: datetime) -> None:
    checkpoint = make_checkpoint(tenant, opened_at=now)
    people = [make_member(tenant, Role.REVIEWER, username=f"person-{number}") for number in range(32)]

    def decide_as(number: int) -> Callable[[], Decision]:
        at = now + timedelta(seconds=number)
        return lambda: decided(checkpoint, people[number], at, resume(input=f"by {number}"))

    results = at_once(*map(decide_as, range(32)))
    [winner] = [result for result in results if isinstance(result, Decision)]
    losers = [result for result in results if isinstance(result, CheckpointChanged)]
    assert len(losers) == 31, results
    assert {(told.change.by, told.change.at, told.change.did) for told in losers} == {
        (winner.by.username, winner.at, "decided it (resume)")
    }
    assert list(Decision.objects.values_list("pk", flat=True)) == [winner.pk]
    checkpoint.refresh_from_db()
    assert (checkpoint.state, checkpoint.version) == ("decided", 2)


def test_of_eight_who_claim_one_has_it(tenant: Tenant, now: datetime) -> None:
    checkpoint = make_checkpoint(tenant, opened_at=now)
    people = [make_member(tenant, Role.REVIEWER) for _ in range(8)]
    results = at_once(*(partial(claim, checkpoint, actor=user, now=now) for user in people))
    kinds = Counter(type(result) for result in results)
    assert kinds == {Checkpoint: 1, CheckpointChanged: 7}


def test_decision_is_either_undone_or_handed_out_and_never_both(tenant: Tenant, now: datetime) -> None:
    ann = make_member(tenant, Role.REVIEWER)
    for _ in range(12):
        checkpoint = make_checkpoint(tenant, opened_at=now)
        made = decided(checkpoint, ann, now)
        # Its time is over in the middle of what follows.
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE decision SET deliver_at = clock_timestamp() + interval '20 ms' WHERE id = %s",
                [made.pk],
            )

        def ask(checkpoint: Checkpoint = checkpoint) -> object:
            for _ in range(40):
                reply = read_reply(tenant.pk, checkpoint.checkpoint_id, now)
                if reply.decision is not None:
                    return "handed out"
            return "nothing"

        def take_back(made: Decision = made) -> object:
            for _ in range(40):
                try:
                    undo(made, actor=ann, now=now)
                    return "undone"
                except InvalidDecision:
                    return "too late"
            return "never"

        asked, taken = at_once(ask, take_back)
        made.refresh_from_db()
        assert (asked, taken) in {("handed out", "too late"), ("nothing", "undone"), ("nothing", "too late")}
        assert (made.delivered_at is None) or (made.undone_at is None)


def test_expiry_and_a_decision_at_the_same_moment_leave_one_decision(tenant: Tenant, now: datetime) -> None:
    ann = make_member(tenant, Role.REVIEWER)
    for _ in range(8):
        checkpoint = make_checkpoint(tenant, opened_at=now)
        expire = partial(expire_due, checkpoint.expires_at)
        results = at_once(expire, expire, partial(decided, checkpoint, ann, now))
        standing = Decision.objects.standing().get(checkpoint=checkpoint)
        assert isinstance(results[2], Decision) is not standing.by_system
        assert sum(results[:2]) == standing.by_system
        assert standing.action == ("stop" if standing.by_system else "resume")


def test_of_eight_attempts_one_has_the_grant(tenant: Tenant, now: datetime) -> None:
    ann = make_member(tenant, Role.REVIEWER)
    checkpoint = make_checkpoint(tenant, opened_at=now)
    made = let_undo_time_pass(decided(checkpoint, ann, now))
    read_reply(tenant.pk, checkpoint.checkpoint_id, now)
    attempts = [make_run_id(now) for _ in range(4)]

    def take(number: int) -> Callable[[], Any]:
        wanted = Consume(
            decision_id=made.pk,
            attempt_id=attempts[number % 4],
            artifact_digest=checkpoint.artifact_digest,
        )
        return lambda: consume(tenant.pk, checkpoint.checkpoint_id, wanted, now)

    results = at_once(*map(take, range(8)))
    made.refresh_from_db()
    for number, result in enumerate(results):
        if attempts[number % 4] == made.attempt_id:
            assert result.attempt_id == made.attempt_id
        else:
            assert isinstance(result, AlreadyConsumed)
            assert result.attempt_id == made.attempt_id


def test_sweeps_at_once_move_each_row_once(tenant: Tenant, now: datetime) -> None:
    for _ in range(20):
        make_checkpoint(tenant, opened_at=now - timedelta(hours=5), expires_at=now)
    results = at_once(*[partial(sweep_checkpoints, now)] * 6)
    assert sum(swept.expired for swept in results) == 20, results
    assert Decision.objects.count() == 20
