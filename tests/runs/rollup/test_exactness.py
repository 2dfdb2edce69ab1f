from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection

from guardops.guard.events import Answer, Outcome, RunEnded
from guardops.guard.ids import uuid7
from runs.ingest.record import record_runs
from runs.ingest.results import Recorded
from runs.ingest.rows import Receipt, Row, project
from runs.models import Run
from runs.partitions import unix_ms
from runs.reports.counts import sums_by_bucket, total
from runs.reports.metrics import Scope
from runs.reports.reading import open_reading
from runs.reports.windows import buckets, parse_window
from runs.rollup.fold import fold_once
from runs.rollup.recount import recount
from tests.runs.rows import fold

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime.now(UTC)
CLIENTS = 4
POSTS = 12


def events_of(client: int, post: int) -> list[Row]:
    """Return one post of two tenants; the same arguments give the same events."""
    rng = random.Random(client * 1_000 + post)
    rows = []
    for index in range(25):
        ended_at = NOW - timedelta(seconds=rng.randint(0, 6 * 3600))
        outcome = rng.choice((Outcome.COMPLETED, Outcome.COMPLETED, Outcome.HALTED))
        event = RunEnded(
            run_id=uuid7(unix_ms(ended_at), rng.getrandbits(74)),
            job_type=rng.choice(("research", "coding")),
            release=rng.choice(("r1", "r2")),
            outcome=outcome,
            halt_reason="no_progress" if outcome is Outcome.HALTED else None,
            answer=Answer.FULL if outcome is Outcome.COMPLETED else Answer.NONE,
            started_at=ended_at - timedelta(seconds=30),
            ended_at=ended_at,
            steps=rng.randint(1, 30),
            cost=Decimal(rng.randint(0, 10_000)).scaleb(-4),
        )
        rows.append(project(event, Receipt(NOW), index=index, tenant_id=1 + index % 2, sanitized=False))
    return rows


def post_all(client: int, report: Callable[[Recorded], None]) -> None:
    for post in range(POSTS):
        report(record_runs(events_of(client, post)))
        if post % 3 == 2:  # the reply was lost: the last three are sent again
            for again in range(post - 2, post + 1):
                report(record_runs(events_of(client, again)))


def in_thread(work: Callable[[], None], failures: list[BaseException]) -> threading.Thread:
    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_four_clients_that_resend_while_fold_runs_leave_every_number_exact() -> None:
    done, failures, replies, looks = threading.Event(), [], [], []

    def fold_on() -> None:
        while not done.is_set():
            fold_once(NOW, rows_a_tick=60)

    def look_on() -> None:
        window = parse_window({"range": "24h"}, NOW, "UTC")
        while not done.is_set():
            with open_reading(Scope((0,)), window, NOW) as reading:
                shown = total(sums_by_bucket(reading, buckets(window, NOW)))
                reading.cursor.execute("SELECT count(*), coalesce(sum(cost), 0) FROM run")
                looks.append(((shown["runs"], shown["cost"]), reading.cursor.fetchone()))

    readers = [in_thread(work, failures) for work in (fold_on, look_on)]
    clients = [
        in_thread(lambda client=client: post_all(client, replies.append), failures)
        for client in range(CLIENTS)
    ]
    for thread in clients:
        thread.join()
    done.set()
    for thread in readers:
        thread.join()
    while fold(NOW).pending:
        pass

    assert failures == []
    sent = CLIENTS * POSTS * 25
    assert sum(reply.accepted for reply in replies) == Run.objects.count() == sent
    assert sum(reply.duplicates for reply in replies) == sent
    assert looks
    assert [shown for shown, _ in looks] == [counted for _, counted in looks]
    assert recount() == []
