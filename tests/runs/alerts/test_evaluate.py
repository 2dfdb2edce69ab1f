"""Windows are judged once each, in order, whoever evaluates and however often."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest
from django.core.management import call_command
from django.db import connection

from runs.alerts import evaluate
from runs.alerts.evaluate import MOST_WINDOWS, windows_due
from runs.alerts.rules import SPECS
from runs.alerts.verdicts import Asked, Verdict
from runs.choices import RuleKind
from runs.models import Evaluation, Incident, IncidentStep, LiveRun
from runs.tasks import evaluate_rules as task
from tests.factories import make_tenant
from tests.runs.live_rows import insert_live

MINUTE, QUARTER, HOUR = timedelta(minutes=1), timedelta(minutes=15), timedelta(hours=1)
NOW = datetime(2026, 3, 14, 15, 7, 26, tzinfo=UTC)
NEWEST = datetime(2026, 3, 14, 15, 0, tzinfo=UTC)
COUNTED, MINUTELY, SLOW = SPECS[RuleKind.COST], SPECS[RuleKind.PRESSURE], SPECS[RuleKind.SOURCE]


def press() -> None:
    """Leave something to find: three live runs near a limit."""
    tenant = make_tenant()
    for _ in range(3):
        insert_live(tenant, pressure=90, pressure_limit="max_steps")


@pytest.mark.django_db(transaction=True)
def test_a_task_that_runs_twenty_times_at_once_makes_one_incident() -> None:
    press()
    start = Barrier(20)

    def run(number: int) -> None:
        try:
            start.wait(20)
            task()
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(run, range(20)))
    assert Incident.objects.count() == IncidentStep.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_evaluations_that_judge_one_window_at_once_settle_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the lock that keeps a second evaluation out, the compare-and-set does."""
    press()
    evaluate.evaluate_rules(NOW)
    LiveRun.objects.all().delete()
    both_have_judged = Barrier(2)

    @contextmanager
    def everybody() -> Iterator[bool]:
        yield True

    def check(asked: Asked) -> Verdict:
        both_have_judged.wait(20)
        return Verdict()

    def run(number: int) -> None:
        try:
            evaluate.evaluate_rules(NOW + MINUTE)
        finally:
            connection.close()

    monkeypatch.setattr(evaluate, "_alone", everybody)
    monkeypatch.setattr(evaluate, "CHECKS", {RuleKind.PRESSURE: check})
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))
    assert Incident.objects.get().clear == 1


@pytest.mark.django_db(transaction=True)
def test_an_evaluation_stands_back_while_another_is_at_work() -> None:
    with evaluate._alone() as alone:
        assert alone

        def run() -> object:
            try:
                return evaluate.evaluate_rules(NOW)
            finally:
                connection.close()

        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(run).result() is None


@pytest.mark.django_db(transaction=True)
def test_a_window_whose_incident_could_not_be_kept_is_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    press()

    def fail(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(evaluate, "open_incident", fail)
        evaluate.evaluate_rules(NOW)
    assert Evaluation.objects.get(rule=RuleKind.PRESSURE).window is None
    evaluate.evaluate_rules(NOW + timedelta(seconds=20))
    assert Incident.objects.count() == 1


@pytest.mark.django_db
def test_the_command_judges_too(capsys: pytest.CaptureFixture[str]) -> None:
    press()
    call_command("alerts")
    assert "incidents: 1 opened, 0 resolved" in capsys.readouterr().out


def test_the_first_time_the_newest_window_is_judged() -> None:
    assert windows_due(COUNTED, None, NOW, NOW) == [NEWEST]
    assert windows_due(MINUTELY, None, NOW, None) == [NOW.replace(second=0)]
    assert windows_due(SLOW, None, NOW, None) == [NEWEST]


def test_a_window_is_judged_once() -> None:
    assert windows_due(COUNTED, NEWEST, NOW, NOW) == []
    assert windows_due(MINUTELY, NOW.replace(second=0), NOW, None) == []
    assert windows_due(SLOW, NEWEST, NOW, None) == []


def test_missed_windows_are_judged_in_order_where_counts_are_kept() -> None:
    assert windows_due(COUNTED, NEWEST - HOUR, NOW, NOW) == [NEWEST - k * QUARTER for k in (3, 2, 1, 0)]
    assert windows_due(MINUTELY, NOW - HOUR, NOW, None) == [NOW.replace(second=0)]


def test_a_long_gap_is_gone_through_in_several_goes_and_ends_a_day_back() -> None:
    windows = windows_due(COUNTED, NEWEST - timedelta(days=9), NOW, NOW)
    assert (len(windows), windows[0]) == (MOST_WINDOWS, NEWEST - timedelta(days=1) + QUARTER)


def test_a_window_waits_until_it_is_counted() -> None:
    assert windows_due(COUNTED, NEWEST - QUARTER, NOW, NEWEST - timedelta(seconds=1)) == []
    assert windows_due(COUNTED, NEWEST - QUARTER, NOW, None) == []


@pytest.mark.parametrize(
    "spec", [COUNTED, MINUTELY, SLOW], ids=["counted", "each half minute", "each quarter-hour"]
)
def test_a_clock_that_was_set_back_begins_where_it_stands(spec: object) -> None:
    back = NOW - HOUR
    counted_to = back if spec is COUNTED else None
    (window,) = windows_due(spec, windows_due(spec, None, NOW, NOW)[0], back, counted_to)  # type: ignore[arg-type]
    assert back - spec.step < window <= back  # type: ignore[attr-defined]


def test_a_clock_a_second_behind_judges_nothing_again() -> None:
    before = NEWEST - timedelta(seconds=1)
    assert windows_due(COUNTED, NEWEST, before, before) == []
    assert windows_due(MINUTELY, NEWEST, before, None) == []
