"""The live demo's agents do what people decide on the review page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.decisions import DecisionAction, DecisionChange
from guardops.guard.events import AnswerBy, Outcome, RunEnded
from guardops.guard.scenarios import support
from guardops.guard.scenarios.roster import SUPPORT
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.checkpoints.choice import Choice
from runs.checkpoints.decide import decide
from runs.ingest.checks import check
from runs.ingest.project import project_event
from runs.ingest.record import record_runs
from runs.ingest.rows import Receipt
from runs.models import Checkpoint, Decision
from runs.replay.demo_tenants import TENANTS
from runs.replay.live import Stage
from runs.replay.live_decisions import EVERY, Decisions
from tests.factories import let_undo_time_pass, make_member, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme-service")


@pytest.fixture
def ann(tenant: Tenant) -> User:
    return make_member(tenant, Role.REVIEWER)


@pytest.fixture
def stage(now: datetime) -> Stage:
    """A tenant whose support agents want to pay a compensation at every second ticket."""
    [plan] = [plan for plan in TENANTS if plan.slug == "acme-service"]
    [load] = [load for load in plan.workloads if load.job == support.JOB]
    job = replace(SUPPORT, astray=((1, support.asks_for_leave),), sound=((1, support.refunds_twice),))
    return Stage([replace(plan, workloads=(load,))], {support.JOB: job}, Random(3), now)


def until_one_waits(stage: Stage, tenant: Tenant, now: datetime) -> tuple[Checkpoint, datetime]:
    """Let time pass until a checkpoint has come in, as the gate takes it."""
    for second in range(900):
        at = now + timedelta(seconds=second)
        for events in stage.look(at).values():
            for event in events:
                if isinstance(event, CheckpointOpened):
                    check(event)
                    row = project_event(event, Receipt(at), index=0, tenant_id=tenant.pk, sanitized=False)
                    assert record_runs([row]).accepted == 1
                    return Checkpoint.objects.select_related("tenant").get(), at
    raise AssertionError("nobody was asked in a quarter of an hour")


def ends(stage: Stage, at: datetime) -> Iterator[RunEnded]:
    for second in range(300):
        for events in stage.look(at + timedelta(seconds=second)).values():
            yield from (event for event in events if isinstance(event, RunEnded) and event.attempt == 2)


@pytest.mark.parametrize(
    ("choice", "outcome", "by"),
    [
        (
            Choice(DecisionAction.RESUME, reason="x", change=DecisionChange(input="y")),
            Outcome.COMPLETED,
            AnswerBy.AGENT,
        ),
        (Choice(DecisionAction.APPROVE, reason="x"), Outcome.COMPLETED, AnswerBy.AGENT),
        (Choice(DecisionAction.ANSWER, answer="42"), Outcome.COMPLETED, AnswerBy.PERSON),
        (Choice(DecisionAction.FORCE_ANSWER), Outcome.COMPLETED_FORCED, AnswerBy.AGENT),
    ],
)
def test_what_is_decided_becomes_a_second_attempt_once(
    stage: Stage,
    tenant: Tenant,
    ann: User,
    now: datetime,
    choice: Choice,
    outcome: Outcome,
    by: AnswerBy,
) -> None:
    checkpoint, at = until_one_waits(stage, tenant, now)
    agents = Decisions(stage)
    assert agents.look(at) == 0
    made = decide(checkpoint, choice, actor=ann, now=at, version=1)
    assert agents.look(at + EVERY) == 0  # it can still be taken back
    let_undo_time_pass(made)
    later = at + 2 * EVERY
    assert agents.look(later) == 1
    assert agents.look(later + EVERY) == 0
    made = Decision.objects.get()
    [again] = [run for run in ends(stage, later) if run.run_id == made.attempt_id]
    assert (again.outcome, again.answer_by, again.resumed_from) == (outcome, by, checkpoint.run_id)
    assert Checkpoint.objects.get().state == "consumed"


def test_stopped_task_has_no_second_attempt(stage: Stage, tenant: Tenant, ann: User, now: datetime) -> None:
    checkpoint, at = until_one_waits(stage, tenant, now)
    decide(checkpoint, Choice(DecisionAction.STOP), actor=ann, now=at, version=1)
    assert Decisions(stage).look(at) == 1
    assert Checkpoint.objects.get().state == "consumed"
    assert checkpoint.run_id not in {run.resumed_from for run in ends(stage, at)}
