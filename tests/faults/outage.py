"""A gate that is away while agents work and are killed: `python -m tests.faults.outage --minutes 10`.

Starts a gate on a database of its own and agent processes that run the README's ten lines, stops the gate,
kills agents (-9) at random and starts others in their place, starts the gate again, and compares what the
agents know to have ended with what the dashboard has.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.gate_process import CHECKOUT, GateProcess

ARRIVAL_SECONDS = 120.0
DATABASE = "guardops_outage"


@dataclass(frozen=True, slots=True)
class Books:
    """Ids of the runs that agents began, that they know to have ended, and that the dashboard has."""

    begun: set[str]
    ended: set[str]
    stored: list[str]
    kills: int

    @property
    def lost(self) -> set[str]:
        return self.ended - set(self.stored)

    @property
    def doubled(self) -> int:
        return len(self.stored) - len(set(self.stored))

    @property
    def unheard_of(self) -> set[str]:
        return set(self.stored) - self.begun

    def __str__(self) -> str:
        return (
            f"{len(self.begun)} runs begun, {len(self.ended)} ended, {self.kills} agents killed; "
            f"{len(self.stored)} stored, {len(self.lost)} lost, {self.doubled} doubled, "
            f"{len(self.unheard_of)} unheard of"
        )


class Agents:
    """Agent processes that work for one gate, and what they wrote of it."""

    def __init__(self, folder: Path, url: str, key: str, count: int, *, pause: float, quick: bool) -> None:
        self.folder = folder
        self.kills = 0
        self._environment = {
            **os.environ,
            "GUARDOPS_URL": url,
            "GUARDOPS_KEY": key,
            "GUARDOPS_STATE": str(folder / "state"),
            "PYTHONWARNINGS": "ignore",
        }
        self._options = [str(pause), *(["--quick"] if quick else [])]
        self._number = 0
        self._processes = [self._start() for _ in range(count)]

    def _start(self) -> subprocess.Popen[bytes]:
        self._number += 1
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.faults.agent_process", str(self.folder), f"{self._number}"),
                *self._options,
            ],
            cwd=CHECKOUT,
            env=self._environment,
            stderr=subprocess.DEVNULL,
        )

    def kill_one(self, rng: random.Random) -> None:
        """Kill an agent where it stands and start another."""
        place = rng.randrange(len(self._processes))
        self._processes[place].kill()
        self._processes[place].wait()
        self.kills += 1
        self._processes[place] = self._start()

    def finish(self, seconds: float) -> int:
        """Let every agent finish and send what it has, and one more what they left; return its exit code."""
        (self.folder / "stop").touch()
        try:
            for process in self._processes:
                process.wait(seconds)
            self._processes = [self._start()]
            return self._processes[0].wait(seconds)
        finally:
            self.stop()

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def wrote(self, what: str) -> set[str]:
        return {
            line
            for path in self.folder.glob(f"{what}-*")
            for line in path.read_text().split()
            if len(line) == 36
        }


def outage(
    gate: GateProcess,
    key: str,
    stored: Callable[[], list[str]],
    *,
    seconds: float,
    agents: int = 3,
    pause: float = 0.05,
    kill_every: float = 1.0,
    quick: bool = True,
    seed: int = 20261130,
) -> Books:
    """Take a running gate away for so long; return the books once everything has arrived, or should have."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="guardops-outage-") as folder:
        working = Agents(Path(folder), gate.url, key, agents, pause=pause, quick=quick)
        try:
            _until(lambda: len(stored()) >= agents, 30.0)
            time.sleep(rng.random())
            gate.kill()
            ends = time.monotonic() + seconds
            while (left := ends - time.monotonic()) > 0:
                time.sleep(min(left, kill_every * (0.5 + rng.random())))
                working.kill_one(rng)
            gate.start()
            gate.wait_ready()
            time.sleep(pause)
            working.kill_one(rng)
            code = working.finish(ARRIVAL_SECONDS)
        finally:
            working.stop()
        ended = working.wrote("ended")
        _until(lambda: ended <= set(stored()), 5.0)
        assert code == 0
        left_over = [path.name for path in Path(folder).glob("state/spool/*/*.events")]
        assert left_over == []
        return Books(working.wrote("begun"), ended, stored(), working.kills)


def _until(is_true: Callable[[], bool], seconds: float) -> None:
    give_up = time.monotonic() + seconds
    while not is_true() and time.monotonic() < give_up:
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--agents", type=int, default=3)
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "guardops.settings")
    os.environ.setdefault("GUARDOPS_PROFILE", "test")
    from tests.benchmarks.own_database import own_database

    with own_database(DATABASE) as url:
        from datetime import UTC, datetime

        from runs.models import Run
        from tests.factories import make_key, make_tenant

        tenant = make_tenant()
        key = make_key(tenant, now=datetime.now(UTC))[1]
        with GateProcess(url) as gate:
            books = outage(
                gate,
                key,
                lambda: [
                    str(found)
                    for found in Run.objects.filter(tenant_id=tenant.pk).values_list("run_id", flat=True)
                ],
                seconds=arguments.minutes * 60,
                agents=arguments.agents,
                pause=0.5,
                kill_every=15.0,
                quick=False,
            )
    print(books)
    sys.exit(bool(books.lost or books.doubled or books.unheard_of))


if __name__ == "__main__":
    main()
