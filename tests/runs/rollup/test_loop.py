from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from runs.choices import Cut, Grain
from runs.models import FoldState, Rollup
from runs.rollup.holders import oldest_transaction
from runs.rollup.loop import fold_until
from tests.runs.rows import fold, insert_rows, make_row

pytestmark = pytest.mark.django_db(transaction=True)

NOW = datetime.now(UTC)


@contextmanager
def folding(
    clock: Callable[[], datetime] = lambda: NOW, *, interval_s: float = 0.01
) -> Iterator[threading.Thread]:
    stop = threading.Event()
    thread = threading.Thread(target=fold_until, args=(stop, clock), kwargs={"interval_s": interval_s})
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join(timeout=30)
    assert not thread.is_alive()


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.01)


def counted() -> int:
    row = Rollup.objects.filter(tenant_id=0, cut=Cut.ALL, grain=Grain.QUARTER).first()
    return row.runs if row else 0


def test_loop_counts_what_comes_until_it_is_stopped() -> None:
    with folding():
        insert_rows([make_row(NOW)])
        wait_for(lambda: counted() == 1)
        insert_rows([make_row(NOW)])
        wait_for(lambda: counted() == 2)


def test_tick_that_takes_the_whole_interval_is_followed_at_once() -> None:
    minutes = itertools.count()

    def slow_clock() -> datetime:
        return NOW + timedelta(minutes=next(minutes))

    with folding(slow_clock, interval_s=60.0):
        wait_for(lambda: FoldState.objects.filter(folded_at__gt=NOW + timedelta(minutes=6)).exists())


def test_loop_goes_on_after_the_database_dropped_it() -> None:
    with folding():
        insert_rows([make_row(NOW)])
        wait_for(lambda: counted() == 1)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()"
            )
            assert (True,) in cursor.fetchall()
        insert_rows([make_row(NOW)])
        wait_for(lambda: counted() == 2)


def test_once_says_how_many_it_counted(capsys: pytest.CaptureFixture[str]) -> None:
    insert_rows([make_row(NOW), make_row(NOW)])
    wait_for(lambda: call_command("fold", once=True) or counted() == 2)

    assert "Counted 2 runs" in capsys.readouterr().out


def test_verify_fails_where_the_roll_ups_differ(capsys: pytest.CaptureFixture[str]) -> None:
    insert_rows([make_row(NOW)])
    fold(NOW)
    call_command("fold", verify=True)
    Rollup.objects.filter(cut=Cut.JOB).update(looped=7)

    with pytest.raises(CommandError):
        call_command("fold", verify=True)
    assert "rollup: 2 rows differ from 2 counted anew" in capsys.readouterr().err


def test_foreign_cluster_ends_the_command_with_the_reason() -> None:
    fold(NOW)
    FoldState.objects.update(system_identifier=42)

    with pytest.raises(CommandError, match="fold --rebase"):
        call_command("fold", loop=True)


def test_oldest_writing_transaction_is_named() -> None:
    with psycopg.connect(**connection.get_connection_params()) as writer:
        writer.execute("SELECT pg_current_xact_id()")
        named = oldest_transaction()

    assert re.fullmatch(r"process \d+ of \S+ in \S+, .+, open for \d+ s", named)
