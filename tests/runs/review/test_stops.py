from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.choices import StopVerdict
from runs.models import Run, StopReview, StopReviewEvent
from runs.review.stops import NotStopped, ReviewChanged, current_review, review_stop, withdraw_review
from tests.factories import make_member, make_tenant
from tests.runs.rows import insert_rows, make_row

pytestmark = pytest.mark.django_db

NOW = datetime.now(UTC)


@pytest.fixture
def tenant(db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def mara(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER, username="mara")


def stopped_run(tenant: Tenant, **columns: Any) -> Run:
    row = make_row(
        NOW, **{"tenant_id": tenant.pk, "outcome": "halted", "halt_reason": "no_progress", **columns}
    )
    insert_rows([row])
    return Run.objects.get(tenant_id=row["tenant_id"], run_id=row["run_id"])


def review(run: Run, actor: User, **fields: Any) -> StopReview:
    return review_stop(
        run,
        actor=actor,
        **{
            "verdict": StopVerdict.FALSE_STOP,
            "detector": "no_progress",
            "note": "",
            "now": NOW,
            "seen": None,
            **fields,
        },
    )


def test_a_review_says_what_who_and_when(tenant: Tenant, mara: User) -> None:
    run = stopped_run(tenant)
    review(run, mara, note="It was paging a real catalogue.")
    found = current_review(run)
    assert found is not None
    assert (found.verdict, found.detector, found.note) == (
        "false_stop",
        "no_progress",
        "It was paging a real catalogue.",
    )
    assert (found.by, found.at) == (mara, NOW)


def test_a_would_halt_of_shadow_mode_can_be_reviewed(tenant: Tenant, mara: User) -> None:
    run = stopped_run(tenant, outcome="completed", halt_reason="", mode="shadow", would_halt="cycle_period_2")
    assert review(run, mara, detector="cycle_period_2").pk


def test_a_run_that_no_guard_stopped_has_no_stop_to_review(tenant: Tenant, mara: User) -> None:
    run = stopped_run(tenant, outcome="completed", halt_reason="")
    with pytest.raises(NotStopped):
        review(run, mara)
    assert current_review(run) is None


def test_who_comes_second_learns_who_was_first_and_changes_nothing(tenant: Tenant, mara: User) -> None:
    run, jo = stopped_run(tenant), make_member(tenant, Role.REVIEWER)
    review(run, mara, note="first")
    with pytest.raises(ReviewChanged) as told:
        review(run, jo, note="second", verdict=StopVerdict.RIGHT_STOP)
    assert told.value.change is not None
    assert (told.value.change.by, told.value.change.did) == ("mara", "marked it")
    assert told.value.current == current_review(run)
    assert StopReview.objects.get().note == "first"


def test_who_saw_the_review_changes_it(tenant: Tenant, mara: User) -> None:
    run, jo = stopped_run(tenant), make_member(tenant, Role.REVIEWER)
    first = review(run, mara)
    second = review(run, jo, verdict=StopVerdict.RIGHT_STOP, seen=first.at)
    assert (second.verdict, second.by) == ("right_stop", jo)
    assert second.at > first.at
    assert StopReview.objects.count() == 1


def test_a_change_of_an_older_review_than_stands_is_refused(tenant: Tenant, mara: User) -> None:
    run = stopped_run(tenant)
    first = review(run, mara)
    review(run, mara, note="changed", seen=first.at)
    with pytest.raises(ReviewChanged):
        review(run, mara, note="late", seen=first.at)
    assert StopReview.objects.get().note == "changed"


def test_a_withdrawn_review_is_gone_and_its_loser_is_told(tenant: Tenant, mara: User) -> None:
    run, jo = stopped_run(tenant), make_member(tenant, Role.REVIEWER)
    first = review(run, mara)
    withdraw_review(run, actor=mara, seen=first.at)
    assert current_review(run) is None
    with pytest.raises(ReviewChanged) as told:
        review(run, jo, seen=first.at)
    assert told.value.change is not None
    assert (told.value.change.by, told.value.change.did) == ("mara", "withdrew the mark")
    assert told.value.current is None
    with pytest.raises(ReviewChanged):
        withdraw_review(run, actor=jo, seen=first.at)


def test_every_change_leaves_an_audit_row_with_its_actor(tenant: Tenant, mara: User) -> None:
    run = stopped_run(tenant)
    first = review(run, mara)
    second = review(run, mara, note="why", seen=first.at)
    withdraw_review(run, actor=mara, seen=second.at)
    trail = StopReviewEvent.objects.order_by("pgh_id")
    assert [(row.pgh_label, row.note) for row in trail] == [
        ("insert", ""),
        ("update", "why"),
        ("delete", "why"),
    ]
    assert {row.pgh_context["actor"]["name"] for row in trail} == {"mara"}


@pytest.mark.parametrize("statement", ["TRUNCATE {}", "DELETE FROM {}", "UPDATE {} SET verdict = 'x'"])
def test_the_trail_of_reviews_can_not_be_changed(tenant: Tenant, mara: User, statement: str) -> None:
    review(stopped_run(tenant), mara)
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement.format(StopReviewEvent._meta.db_table))
    assert StopReviewEvent.objects.get().verdict == "false_stop"


@pytest.mark.parametrize(
    "values", [{"verdict": "maybe"}, {"detector": ""}, {"detector": "x" * 65}, {"note": "x" * 2_001}]
)
def test_the_database_refuses_what_is_no_review(tenant: Tenant, mara: User, values: dict[str, str]) -> None:
    run = stopped_run(tenant)
    with pytest.raises(IntegrityError), transaction.atomic():
        review(run, mara, **values)


def test_the_same_run_id_in_two_tenants_has_two_reviews(tenant: Tenant, mara: User) -> None:
    run, other = stopped_run(tenant), make_tenant()
    twin = stopped_run(other, run_id=run.run_id)
    review(run, mara)
    assert current_review(twin) is None
    assert review(twin, mara, verdict=StopVerdict.RIGHT_STOP).pk


@pytest.mark.django_db(transaction=True)
def test_of_many_reviews_at_once_one_wins(tenant: Tenant) -> None:
    run = stopped_run(tenant)
    people = [make_member(tenant, Role.REVIEWER) for _ in range(6)]
    together = Barrier(len(people))

    def attempt(person: User) -> bool:
        together.wait()
        try:
            review(run, person, now=NOW + timedelta(seconds=person.pk))
        except ReviewChanged:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(len(people)) as pool:
        won = list(pool.map(attempt, people))
    assert won.count(True) == 1
    assert StopReview.objects.get().by == people[won.index(True)]
