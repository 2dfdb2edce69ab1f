"""The fold process under signals: SIGTERM ends it cleanly, SIGKILL loses and repeats nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from runs.models import IngestSpan, Run
from runs.rollup.recount import recount
from tests.runs.rows import insert_rows, random_rows

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]

NOW = datetime.now(UTC)


def start_fold(database_url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "manage.py", "fold", "--loop"],
        env={**os.environ, "DATABASE_URL": database_url, "GUARDOPS_PROCESS": "fold"},
        stderr=subprocess.DEVNULL,
    )


def wait_for(condition: Callable[[], bool]) -> None:
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.02)


def everything_counted() -> bool:
    return not IngestSpan.objects.exists()


def test_sigterm_ends_fold_at_once_with_status_zero(database_url: str) -> None:
    insert_rows(random_rows(random.Random(1), 20, NOW - timedelta(hours=2), NOW))
    process = start_fold(database_url)
    try:
        wait_for(everything_counted)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.wait()


def test_fold_killed_at_random_counts_every_run_once(database_url: str) -> None:
    rng = random.Random(20261130)
    for _ in range(6):
        process = start_fold(database_url)
        try:
            insert_rows(random_rows(rng, 50, NOW - timedelta(hours=2), NOW))
            wait_for(everything_counted)
            for _ in range(3):
                insert_rows(random_rows(rng, 50, NOW - timedelta(hours=2), NOW))
                time.sleep(rng.random() / 2)
        finally:
            process.kill()
            process.wait()
    last = start_fold(database_url)
    try:
        wait_for(everything_counted)
    finally:
        last.kill()
        last.wait()

    assert Run.objects.count() == 6 * 4 * 50
    assert recount() == []
