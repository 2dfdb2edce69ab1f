"""Sending in real time: what a gate that is away did not take waits, and nothing keeps a signal waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from random import Random
from threading import Event as Flag
from threading import Timer

import pytest

from guardops.guard.events import RunHeartbeat
from guardops.guard.scenarios.roster import SUPPORT
from guardops.guard.wire import Event
from runs.replay import outbox as module
from runs.replay.demo_tenants import TENANTS
from runs.replay.live import Stage
from runs.replay.outbox import Outbox, send_on
from runs.replay.timing import stable_id
from tests.factories import make_run_event, make_tenant, store_runs

from .little_gate import LittleGate, Reply, little_gate, problem

NOW = datetime(2026, 11, 30, 10, tzinfo=UTC)


@pytest.fixture
def gate() -> Iterator[LittleGate]:
    with little_gate() as gate:
        yield gate


@pytest.fixture
def keys() -> list[str]:
    """The tenants for which a key was made."""
    return []


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def outbox(gate: LittleGate, keys: list[str], said: list[str]) -> Iterator[Outbox]:
    def make_key(slug: str) -> str:
        keys.append(slug)
        return f"go_{slug}_{len(keys)}"

    with closing(Outbox(gate.url, ["acme", "globex"], make_key, said.append, jitter=lambda: 1.0)) as outbox:
        yield outbox


def runs(count: int) -> list[Event]:
    return [make_run_event(run_id=stable_id(NOW, f"{number}"), ended_at=NOW) for number in range(count)]


def beat(seq: int) -> Event:
    return RunHeartbeat(run_id=stable_id(NOW, "live"), seq=seq, at=NOW)


def test_each_tenant_is_sent_for_with_its_own_key(gate: LittleGate, outbox: Outbox) -> None:
    first, second = runs(2)

    outbox.keep({"acme": [first], "globex": [second]})
    outbox.flush(NOW)

    keys = [headers["authorization"] for headers in gate.headers]
    assert keys == ["Bearer go_acme_1", "Bearer go_globex_2"]
    assert outbox.sent == 2


def test_what_a_gate_that_is_away_did_not_take_is_sent_when_it_is_back(
    gate: LittleGate, outbox: Outbox, said: list[str]
) -> None:
    gate.replies = [Reply(503, problem(503, "busy")), Reply(503, problem(503, "busy"))]
    first, second = runs(2)

    outbox.keep({"acme": [first]})
    outbox.flush(NOW)
    outbox.keep({"acme": [second]})
    outbox.flush(NOW + timedelta(seconds=2))  # too early
    assert len(gate.requests) == 1
    outbox.flush(NOW + timedelta(seconds=3))
    outbox.flush(NOW + timedelta(seconds=7))
    assert len(gate.requests) == 2
    outbox.flush(NOW + timedelta(seconds=8))

    assert gate.kept == {str(first.run_id), str(second.run_id)}
    assert outbox.sent == 2
    assert [line.split(":")[0] for line in said] == ["acme", "acme"]
    assert "back" in said[1]


def test_a_tenant_that_waits_keeps_no_other_waiting(gate: LittleGate, outbox: Outbox) -> None:
    gate.replies = [Reply(503, problem(503, "busy"))]
    first, second = runs(2)

    outbox.keep({"acme": [first], "globex": [second]})
    outbox.flush(NOW)

    assert gate.kept == {str(second.run_id)}


def test_a_key_that_is_refused_is_made_anew(gate: LittleGate, outbox: Outbox, keys: list[str]) -> None:
    gate.replies = [Reply(401, problem(401, "invalid_key"))]

    outbox.keep({"acme": runs(1)})
    outbox.flush(NOW)
    outbox.flush(NOW + timedelta(minutes=1))

    assert keys == ["acme", "globex", "acme"]
    assert gate.headers[-1]["authorization"] == "Bearer go_acme_3"
    assert outbox.sent == 1


def test_a_long_outage_costs_signs_of_life_before_it_costs_runs(
    gate: LittleGate, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 10)
    ended = runs(8)

    outbox.keep({"acme": [beat(0), *ended[:4], beat(1), beat(2), *ended[4:]]})
    outbox.flush(NOW)

    assert gate.kept == {str(event.run_id) for event in ended}


def test_told_to_stop_it_says_how_live_runs_end_and_returns(gate: LittleGate) -> None:
    slugs = [tenant.slug for tenant in TENANTS[3:]]
    outbox = Outbox(gate.url, slugs, lambda slug: slug, lambda line: None)
    stop = Flag()
    stop.set()
    stage = Stage(TENANTS[4:], {SUPPORT.name: SUPPORT}, Random(2), NOW)
    outbox.keep(stage.look(NOW))
    live = stage.live

    send_on(stage, outbox, stop, lambda: NOW, lambda line: None)

    sent = [event for request in gate.requests for event in request]
    assert sum(event.get("outcome") == "cancelled" for event in sent) == live > 0


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_sends_on_until_a_signal_and_ends_in_order(
    gate: LittleGate, database_url: str, number: signal.Signals
) -> None:
    for plan in TENANTS:
        store_runs(make_tenant(plan.slug), make_run_event())
    process = subprocess.Popen(
        [sys.executable, "manage.py", "demo", "--live", "--url", gate.url],
        env={**os.environ, "DATABASE_URL": database_url, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    hung = Timer(60, process.kill)
    hung.start()
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("at work" in line for line in lines)
        wait_for(lambda: len(gate.requests) >= len(TENANTS))
        process.send_signal(number)
        rest = list(lines)
    finally:
        hung.cancel()
        process.kill()
        process.wait()

    assert process.returncode == 0
    assert "Stopped" in rest[-1]
    sent = [event for request in gate.requests for event in request]
    assert {event["type"] for event in sent} >= {"run.started", "run.ended"}
    ended = {event["run_id"] for event in sent if event["type"] == "run.ended"}
    assert {event["run_id"] for event in sent if event["type"] == "run.started"} <= ended


def wait_for(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
