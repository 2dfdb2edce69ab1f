"""Alerts under a broker that dies and freezes: a real worker, two real beats, a real Valkey."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from guardops.local.processes import launched, spawn
from guardops.local.valkey import Valkey
from guardops.tenants.models import Tenant
from runs.models import Evaluation, Incident, IncidentStep
from tests.factories import make_tenant
from tests.gate_process import CHECKOUT
from tests.local.waiting import until
from tests.runs.live_rows import insert_live

pytestmark = [pytest.mark.fault, pytest.mark.django_db(transaction=True)]

PROMISED_SECONDS = 60
FROZEN_SECONDS = 12.0 if os.environ.get("CI") else 6.0


@dataclass
class Workshop:
    """A broker, a worker and two beats, with what the beats say."""

    broker: Valkey
    folder: Path
    database_url: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    broker_process: subprocess.Popen[bytes] | None = None

    def start_broker(self) -> None:
        self.broker.prepare()
        self.broker_process = spawn(self.broker.command(), output=subprocess.DEVNULL)
        until(self.broker.is_ready)

    def start(self, name: str, log: str, *arguments: str) -> None:
        celery = [sys.executable, "-m", "celery", "--app", "guardops.celery", "--quiet", name, *arguments]
        environment = {
            **os.environ,
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.broker.url,
            "GUARDOPS_PROCESS": name,
            "GUARDOPS_LOG": "text",
            "GUARDOPS_LOG_LEVEL": "INFO",
        }
        with (self.folder / log).open("wb") as out:
            self.processes.append(
                subprocess.Popen(
                    launched(celery), cwd=CHECKOUT, env=environment, stdout=out, stderr=subprocess.STDOUT
                )
            )

    def signal_broker(self, number: int) -> None:
        assert self.broker_process is not None
        self.broker_process.send_signal(number)

    def said(self, log: str) -> str:
        return (self.folder / log).read_text(errors="replace")

    def stop(self) -> None:
        for process in [*self.processes, *filter(None, [self.broker_process])]:
            process.kill()
            process.wait()


@pytest.fixture
def workshop(home: Path, tmp_path: Path, database_url: str) -> Iterator[Workshop]:
    made = Workshop(Valkey(home), tmp_path, database_url)
    try:
        made.start_broker()
        made.start("worker", "worker.log", "--concurrency", "2", "--without-gossip", "--without-mingle")
        made.start("beat", "beat-1.log")
        made.start("beat", "beat-2.log")
        yield made
    finally:
        made.stop()


def press(tenant: Tenant, job_type: str) -> None:
    """Leave something to be told: three live runs of a job type near a limit."""
    for _ in range(3):
        insert_live(tenant, job_type=job_type, pressure=90, pressure_limit="max_steps")


def told(job_type: str) -> bool:
    return Incident.objects.filter(job_type=job_type).exists()


def test_no_incident_is_lost_or_doubled_while_the_broker_dies_and_freezes(workshop: Workshop) -> None:
    tenant = make_tenant()
    until(Evaluation.objects.exists, 90)  # the first tick has arrived

    workshop.signal_broker(signal.SIGKILL)
    assert workshop.broker_process is not None
    workshop.broker_process.wait()
    press(tenant, "while it was dead")
    time.sleep(2)
    workshop.start_broker()
    until(lambda: told("while it was dead"), PROMISED_SECONDS)

    workshop.signal_broker(signal.SIGSTOP)
    press(tenant, "while it was frozen")
    time.sleep(FROZEN_SECONDS)
    workshop.signal_broker(signal.SIGCONT)
    until(lambda: told("while it was frozen"), PROMISED_SECONDS)

    assert Incident.objects.count() == IncidentStep.objects.count() == 2
    due = "evaluate-rules"
    ticks = sorted(workshop.said(log).count(due) for log in ("beat-1.log", "beat-2.log"))
    assert ticks[0] == 0
    assert ticks[1] >= 2
