"""Recorded runs through a real gate process into PostgreSQL."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone

from guardops.guard.events import Outcome
from guardops.guard.policy import Policy
from guardops.guard.reasons import Reason
from guardops.tenants.models import Tenant
from runs.models import Run
from runs.replay.account import make_key
from runs.replay.play import Player
from runs.replay.sender import Sender
from runs.replay.timing import Calendar, window_end
from tests.factories import make_tenant

from .recordings import call, loop, recording, trace

pytestmark = pytest.mark.django_db(transaction=True)


class Gate:
    """A gate process that can be killed and started again on the same socket, which keeps listening."""

    def __init__(self, database_url: str) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._environment = {**os.environ, "DATABASE_URL": database_url, "GUARDOPS_PROCESS": "gate"}
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.start()

    def start(self) -> None:
        number = self._socket.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "manage.py", "gate", "--fd", str(number)],
            env=self._environment,
            pass_fds=[number],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        self._socket.close()


@pytest.fixture
def gate(database_url: str) -> Iterator[Gate]:
    gate = Gate(database_url)
    yield gate
    gate.close()


def test_a_replayed_run_is_stored_as_the_guard_saw_it_and_once(gate: Gate, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    runs = [
        recording(call("a", domain="docs.example.org"), run_id="lab/1", started_at="2025-07-25 03:29:00"),
        recording(*loop(), run_id="lab/2"),
    ]
    path.write_text("\n".join(map(json.dumps, runs)))

    until = f"--until={window_end(timezone.now())}"

    call_command("replay", str(path), until, tenant="acme", url=gate.url)
    call_command("replay", str(path), until, tenant="acme", url=gate.url)

    tenant = Tenant.objects.get(slug="acme")
    completed, stopped = Run.objects.for_tenants([tenant.pk]).order_by("steps")
    assert (completed.outcome, completed.halt_reason, completed.steps) == (Outcome.COMPLETED, "", 1)
    assert completed.detail["attributes"]["recorded_started_at"] == "2025-07-25 03:29:00"
    assert not completed.clock_suspect
    assert (stopped.outcome, stopped.halt_reason, stopped.refusals) == (
        Outcome.COMPLETED_FORCED,
        Reason.REPEATED_CALL,
        2,
    )


@pytest.mark.fault
def test_a_gate_killed_after_every_answer_takes_every_run_once(gate: Gate) -> None:
    tenant = make_tenant("acme")
    key = make_key("acme", name="replay", now=timezone.now(), say=lambda text: None)
    player = Player(Policy(), Calendar(window_end(timezone.now())))
    sent = [player.play(trace(call("a"), *loop(3), run_id=f"lab/{n}")).event for n in range(3_000)]

    def kill_and_start_again(count: int) -> None:
        gate.kill()
        gate.start()

    with Sender(gate.url, key) as sender:
        tally = sender.send(sent, kill_and_start_again)

    assert tally.complete
    assert tally.accepted + tally.duplicates == len(sent)
    stored = Run.objects.for_tenants([tenant.pk]).values_list("run_id", flat=True)
    assert sorted(stored) == sorted(event.run_id for event in sent)
