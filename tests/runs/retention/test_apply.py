"""Retention: what goes, what stays, and what is told of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection
from django.db.models.signals import post_save

from guardops.guard.events import Outcome, Source, SourceKind
from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.models import Tenant
from runs.checkpoints.timeouts import expire
from runs.models import (
    Checkpoint,
    Decision,
    ExternalRun,
    FoldState,
    LiveRun,
    RefusedWork,
    RetentionRun,
    Rollup,
    Run,
    RunHorizon,
    RunHorizonEvent,
    RunSource,
    TaskCompletion,
)
from runs.partitions import existing_days, kept_days, make_partitions, partition_name
from runs.retention.apply import LOCK_SPACE, apply_retention, first_line
from runs.retention.days import Day, detach_day, drop_detached
from runs.retention.early import delete_early
from runs.retention.horizon import kept_from
from runs.rollup.recount import recount
from runs.tasks import apply_retention as task
from tests.factories import make_checkpoint, make_run_event, make_run_id, make_tenant, store_runs
from tests.runs.rows import fold

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime.now(UTC)
TODAY = NOW.date()


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


@pytest.fixture(autouse=True)
def _usual_days() -> Iterator[None]:
    """Begin and end with the days that always have a place: other tests make old ones, and need them made."""
    drop_unusual_days()
    yield
    drop_detached()
    drop_unusual_days()


def drop_unusual_days() -> None:
    usual = kept_days(NOW)
    for day in set(existing_days()) - set(usual):
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {partition_name(day)}")
    make_partitions(usual)


def days_ago(count: int) -> datetime:
    """Return noon of so many UTC days ago, when nothing is near a midnight."""
    return datetime.combine(TODAY - timedelta(days=count), datetime.min.time(), UTC) + timedelta(hours=12)


def store(tenant: Tenant, age: int, *, later: int = 0, **fields: object) -> UUID:
    """Store a run that ended ``age`` days ago; it was received then, or ``later`` days after."""
    at = days_ago(age)
    make_partitions([at.date()])
    event = make_run_event(**{"ended_at": at, **fields})
    store_runs(tenant, event, received_at=at + timedelta(days=later, seconds=5))
    return event.run_id


def keep_for(tenant: Tenant, count: int) -> None:
    with acting(SYSTEM):
        tenant.organisation.retention_days = count
        tenant.organisation.save()


def count_all() -> None:
    """Fold until no run is left uncounted, whatever holds fold back."""
    while fold(NOW).pending:
        pass


def stored() -> set[UUID]:
    return set(Run.objects.values_list("run_id", flat=True))


def test_days_past_their_time_are_dropped_and_the_others_stay(tenant: Tenant) -> None:
    store(tenant, 40)
    kept = store(tenant, 35)
    count_all()

    record = apply_retention(NOW)

    assert record is not None
    assert stored() == {kept}
    assert TODAY - timedelta(days=40) in record.days
    assert min(existing_days()) == TODAY - timedelta(days=36)
    assert record.bytes_freed > 0
    assert record.finished
    assert RetentionRun.objects.get().ended_at is not None


def test_a_day_stays_while_a_run_of_it_may_be_placed_inside(tenant: Tenant) -> None:
    at = days_ago(35) - timedelta(hours=11)
    make_partitions([TODAY - timedelta(days=36)])
    event = make_run_event(ended_at=at, run_id=make_run_id(at - timedelta(hours=23)))
    store_runs(tenant, event, received_at=at)
    count_all()

    apply_retention(NOW)

    assert stored() == {event.run_id}


def test_the_setting_decides_how_many_days_are_kept(tenant: Tenant, settings: Any) -> None:
    settings.RETENTION_DAYS = 7
    store(tenant, 9)
    kept = store(tenant, 7)
    count_all()

    apply_retention(NOW)

    assert stored() == {kept}


def test_what_fold_has_not_counted_stays(tenant: Tenant) -> None:
    count_all()
    uncounted = store(tenant, 50)

    record = apply_retention(NOW)

    assert stored() == {uncounted}
    assert record is not None
    assert record.postponed == [TODAY - timedelta(days=50)]
    assert not record.finished
    count_all()
    apply_retention(NOW)
    assert stored() == set()


def test_single_runs_that_fold_has_not_counted_stay(tenant: Tenant) -> None:
    keep_for(tenant, 3)
    counted = store(tenant, 5)
    count_all()
    uncounted = store(tenant, 5)

    record = apply_retention(NOW)

    assert counted not in stored()
    assert stored() == {uncounted}
    assert record is not None
    assert record.runs == 1


def test_where_fold_has_never_run_nothing_goes(tenant: Tenant) -> None:
    old = store(tenant, 50)

    apply_retention(NOW)

    assert stored() == {old}


def test_marks_of_another_cluster_stop_it_and_the_record_says_why(tenant: Tenant) -> None:
    old = store(tenant, 50)
    count_all()
    FoldState.objects.update(system_identifier=7)

    with pytest.raises(CommandError, match="re-based"):
        call_command("retention")

    assert stored() == {old}
    assert "re-based" in RetentionRun.objects.get().error


def test_counts_stay_when_their_runs_go(tenant: Tenant) -> None:
    store(tenant, 50)
    count_all()
    before = list(Rollup.objects.order_by("pk").values())

    apply_retention(NOW)

    assert stored() == set()
    assert list(Rollup.objects.order_by("pk").values()) == before != []


def test_an_organisations_shorter_time_deletes_its_runs_alone(tenant: Tenant) -> None:
    keep_for(tenant, 3)
    other = make_tenant("globex")
    store(tenant, 4)
    kept = {store(tenant, 3), store(other, 4)}
    count_all()

    record = apply_retention(NOW)

    assert stored() == kept
    assert record is not None
    assert record.runs == 1


def test_an_organisation_keeps_nothing_for_longer_than_the_installation(tenant: Tenant) -> None:
    keep_for(tenant, 90)
    store(tenant, 50)
    count_all()

    apply_retention(NOW)

    assert stored() == set()


def test_progress_names_no_tenant_to_who_reads_it_in_another_organisation(tenant: Tenant) -> None:
    keep_for(tenant, 3)
    store(tenant, 4)
    count_all()
    told: list[str] = []

    def listen(instance: RetentionRun, **_: Any) -> None:
        told.append(instance.progress)

    post_save.connect(listen, sender=RetentionRun)
    try:
        apply_retention(NOW)
    finally:
        post_save.disconnect(listen, sender=RetentionRun)

    assert any("1 deleted" in text for text in told)
    assert not any(tenant.name in text for text in told)


def test_batches_are_small_and_none_misses_a_run(tenant: Tenant) -> None:
    for age in (9, 5, 2):
        for _ in range(5):
            store(tenant, age)
    kept = store(tenant, 1)
    count_all()

    batches = delete_early(tenant, kept_from(NOW, 1), counted=FoldState.objects.get().last, page=4)

    assert [runs for runs, _ in batches] == [4, 4, 4, 3]
    assert stored() == {kept}


def test_a_retention_that_runs_out_of_time_is_gone_on_with(tenant: Tenant) -> None:
    keep_for(tenant, 1)
    store(tenant, 5)
    store(make_tenant(organisation=tenant.organisation), 5)
    count_all()

    first = apply_retention(NOW, seconds=0)
    assert first is not None
    assert not first.finished
    assert len(stored()) == 1
    second = apply_retention(NOW)
    assert second is not None
    assert second.finished
    assert stored() == set()


def test_what_stands_beside_runs_goes_with_them(tenant: Tenant) -> None:
    source = [Source(kind=SourceKind.DOMAIN, name="mirror.example", calls=3)]
    halted = {"outcome": Outcome.HALTED, "halt_reason": "no_progress", "sources": source}
    for age, name in ((50, "old"), (4, "new")):
        store(tenant, age, run_id=None, external_id=name, **halted)
    count_all()

    record = apply_retention(NOW)

    assert record is not None
    assert record.beside == 2
    assert list(ExternalRun.objects.values_list("external_id", flat=True)) == ["external:new"]
    assert RunSource.objects.count() == 1
    keep_for(tenant, 2)
    apply_retention(NOW)
    assert ExternalRun.objects.count() == RunSource.objects.count() == Run.objects.count() == 0


@pytest.mark.parametrize("keeps", [35, 3])
def test_a_completed_task_stays_completed_when_its_run_is_gone(tenant: Tenant, keeps: int) -> None:
    keep_for(tenant, keeps)
    first = store(tenant, 50 if keeps == 35 else 5)
    count_all()
    apply_retention(NOW)
    assert stored() == set()

    late = make_run_event(ended_at=days_ago(1), root_task_id=str(first), attempt=2)
    store_runs(tenant, late, received_at=NOW)

    assert list(Run.objects.values_list("run_id", "completes")) == [(late.run_id, False)]


def test_a_completed_task_is_forgotten_some_time_after_its_run(tenant: Tenant) -> None:
    for age, task_id in ((75, "long ago"), (69, "lately")):
        store(tenant, age, root_task_id=task_id)
    count_all()

    apply_retention(NOW)

    assert list(TaskCompletion.objects.values_list("root_task_id", flat=True)) == ["lately"]


def test_refused_work_and_runs_that_fell_silent_go_as_well(tenant: Tenant) -> None:
    for age in (50, 20, 2):
        refuse(tenant, days_ago(age))
    LiveRun.objects.create(
        tenant_id=tenant.pk,
        run_id=make_run_id(days_ago(20)),
        started_at=days_ago(20),
        received_at=days_ago(20),
        last_at=days_ago(20),
    )
    count_all()

    apply_retention(NOW)

    assert LiveRun.objects.count() == 0
    assert [row.at for row in RefusedWork.objects.order_by("at")] == [days_ago(20), days_ago(2)]
    keep_for(tenant, 3)
    refuse(make_tenant("globex"), days_ago(20))
    apply_retention(NOW)
    assert [row.at for row in RefusedWork.objects.order_by("at")] == [days_ago(20), days_ago(2)]


def test_checkpoints_that_wait_for_nobody_go_as_well_and_their_decisions_stay_in_the_trail(
    tenant: Tenant,
) -> None:
    for age in (50, 20):
        late = make_checkpoint(tenant, opened_at=days_ago(age), received_at=days_ago(age))
        expire(late, late.expires_at)
    waiting = make_checkpoint(
        tenant,
        opened_at=days_ago(50),
        received_at=days_ago(50),
        expires_at=days_ago(-10),
    )
    count_all()

    apply_retention(NOW)

    kept = Checkpoint.objects.order_by("opened_at")
    assert [row.opened_at for row in kept] == [days_ago(50), days_ago(20)]
    assert kept[0] == waiting
    trail = Decision.pgh_event_model.objects.filter(pgh_label="delete")  # type: ignore[attr-defined]
    assert [row.action for row in trail] == ["stop"]


def refuse(tenant: Tenant, at: datetime) -> None:
    RefusedWork.objects.create(
        tenant_id=tenant.pk,
        refusal_id=make_run_id(at),
        body_digest=b"0123456789abcdef",
        reason="hop_budget",
        at=at,
        received_at=at,
    )


def test_a_recount_leaves_out_what_is_gone_and_finds_what_is_wrong(tenant: Tenant) -> None:
    other = make_tenant("globex")
    keep_for(tenant, 3)
    for age in (50, 20, 5, 1):
        store(tenant, age)
        store(other, age)
    count_all()
    assert recount() == []

    apply_retention(NOW)

    assert recount() == []
    Run.objects.filter(tenant_id=other.pk, at__gte=days_ago(6), at__lt=days_ago(4)).delete()
    assert {difference.table for difference in recount()} == {"rollup", "histogram", "source_day"}


def test_the_audit_trail_says_from_when_on_runs_are_kept_and_who_moved_that(tenant: Tenant) -> None:
    keep_for(tenant, 3)
    store(tenant, 5)
    store(make_tenant("globex"), 50)
    count_all()

    apply_retention(NOW)
    apply_retention(NOW)

    assert {(row.tenant, row.kept_from.date()) for row in RunHorizon.objects.all()} == {
        (None, TODAY - timedelta(days=35)),
        (tenant, TODAY - timedelta(days=3)),
    }
    events = RunHorizonEvent.objects.all()
    assert len(events) == 2
    assert {event.pgh_context["actor"]["kind"] for event in events} == {"system"}


def test_two_at_once_do_the_work_once(tenant: Tenant) -> None:
    store(tenant, 50)
    count_all()
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s, 0)", [LOCK_SPACE])
        assert apply_retention(NOW) is None
        with pytest.raises(CommandError, match="at work"):
            call_command("retention")
    finally:
        other.close()
    assert len(stored()) == 1
    assert RetentionRun.objects.count() == 0


def test_eight_at_once_leave_nothing_half_done(tenant: Tenant) -> None:
    for age in (50, 51, 52):
        store(tenant, age)
    count_all()
    done: list[RetentionRun | None] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            done.append(apply_retention(NOW))
        except BaseException as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert stored() == set()
    dropped = [day for record in done if record for day in record.days if day < TODAY - timedelta(days=49)]
    assert sorted(dropped) == [TODAY - timedelta(days=age) for age in (52, 51, 50)]


def test_a_day_in_use_is_left_for_the_next_time(tenant: Tenant) -> None:
    store(tenant, 50)
    count_all()
    reader = connection.copy()
    try:
        with reader.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT count(*) FROM run")
        day = TODAY - timedelta(days=50)
        counted = FoldState.objects.get().last
        assert detach_day(day, counted=counted, tries=2, pause_s=0) is Day.LOCKED
        assert day in existing_days()
    finally:
        reader.close()
    assert detach_day(day, counted=counted) is Day.DETACHED


def test_what_a_killed_retention_had_detached_is_dropped_and_its_day_can_be_made_again(
    tenant: Tenant,
) -> None:
    day = TODAY - timedelta(days=50)
    store(tenant, 50)
    count_all()
    assert detach_day(day, counted=FoldState.objects.get().last) is Day.DETACHED
    assert make_partitions([day]) == [day]

    record = apply_retention(NOW)

    assert record is not None
    assert record.days == [day]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_class WHERE relname LIKE 'gone_run%'")
        assert cursor.fetchone() == (0,)


def test_records_are_kept_for_90_days() -> None:
    RetentionRun.objects.create(started_at=NOW - timedelta(days=91), ended_at=NOW - timedelta(days=91))

    apply_retention(NOW)

    assert [record.started_at for record in RetentionRun.objects.all()] == [NOW]


def test_the_task_and_the_command_do_it(tenant: Tenant) -> None:
    store(tenant, 50)
    count_all()
    out = StringIO()

    task()
    call_command("retention", stdout=out)

    assert stored() == set()
    assert "0 days dropped" in out.getvalue()
    assert RetentionRun.objects.count() == 2


def test_error_that_quotes_a_row_is_told_without_it() -> None:
    error = IntegrityError('duplicate key\nDETAIL:  Key (tenant_id, run_id)=(7, "secret") already exists.')
    assert first_line(error) == "duplicate key"
