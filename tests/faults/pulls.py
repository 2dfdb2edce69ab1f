"""One writer, many pullers, and a gate that dies in between: `python -m tests.faults.pulls --seconds 60`.

The pullers ask as guards do, and prove every bundle that they get: its hash, its tenant, its ETag, and that
no revision is older than the one before. Beside them works the client that agents use.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from guardops.guard.bundle import BundleError, read_bundle
from guardops.guard.client import Pace, PolicyClient
from tests.gate_process import GateProcess

PATH = "/api/v1/bundle"
DATABASE = "guardops_pulls"
HOLD_SECONDS = 60.0
WAIT = 2


@dataclass
class PullingGuard:
    """A guard that asks from a thread: what it was answered, and how long that took."""

    gate: GateProcess
    key: str
    etag: str = ""
    status: int = 0
    body: bytes = b""
    seconds: float = 0.0
    thread: threading.Thread = field(default_factory=threading.Thread)

    def ask(self, wait: float = 0) -> None:
        headers = {"Authorization": f"Bearer {self.key}", "If-None-Match": self.etag}
        with closing(http.client.HTTPConnection(*self.gate.address, timeout=60)) as client:
            began = time.monotonic()
            client.request("GET", f"{PATH}?wait={wait}", headers=headers)
            response = client.getresponse()
            self.body = response.read()
            self.seconds = time.monotonic() - began
            self.status, self.etag = response.status, response.headers.get("ETag", "")

    def hold(self, wait: float = 30) -> None:
        """Have the newest bundle, and let the next request wait."""
        self.ask()
        assert self.status in (200, 304)
        self.thread = threading.Thread(target=self.ask, args=(wait,))
        self.thread.start()
        time.sleep(0.2)  # what comes a little too early is answered at once, and just as right

    def revision(self) -> int:
        """Return the revision that ended the wait."""
        self.thread.join()
        assert self.status == 200
        return read_bundle(self.body, tenant=None).revision


class Pullers:
    """Threads that pull the bundle of one tenant for as long as the block lasts."""

    def __init__(self, gate: GateProcess, key: str, tenant: str, count: int) -> None:
        self.answers: Counter[int] = Counter()  # by status; 0 = the connection broke
        self.wrong: list[str] = []
        self.revisions = [0] * count
        self._gate, self._tenant = gate, tenant
        self._headers = {"Authorization": f"Bearer {key}", "Accept-Encoding": "gzip"}
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(place,)) for place in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, place: int) -> None:
        etag, epoch = "", ""
        with closing(http.client.HTTPConnection(*self._gate.address, timeout=30)) as client:
            while not self._stop.is_set():
                try:
                    client.request(
                        "GET", f"{PATH}?wait={WAIT}", headers=self._headers | {"If-None-Match": etag}
                    )
                    response = client.getresponse()
                    body = response.read()
                except (OSError, http.client.HTTPException):
                    client.close()  # opens itself again
                    self.answers[0] += 1
                    time.sleep(0.05)
                    continue
                self.answers[response.status] += 1
                if response.status == 200:
                    etag, epoch = self._prove(place, epoch, body, response.headers)
                elif response.status != 304:
                    time.sleep(0.05)

    def _prove(self, place: int, epoch: str, body: bytes, headers: Any) -> tuple[str, str]:
        try:
            bundle = read_bundle(gzip.decompress(body), tenant=self._tenant)
        except (BundleError, OSError, EOFError) as error:
            self.wrong.append(f"a bundle that proves nothing: {error}")
            return "", epoch
        if bundle.etag != headers["ETag"] or str(bundle.revision) != headers["GuardOps-Revision"]:
            self.wrong.append(f"{bundle.etag} came as {headers['ETag']}")
        if bundle.epoch == epoch and bundle.revision <= self.revisions[place]:
            self.wrong.append(f"revision {bundle.revision} after {self.revisions[place]}")
        self.revisions[place] = bundle.revision
        return bundle.etag, bundle.epoch


class Writer:
    """A thread that publishes one edit after the other for as long as the block lasts."""

    def __init__(self, edit: Callable[[int], int], pause: float) -> None:
        self.revision = self.edits = 0
        self._edit, self._pause = edit, pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        from django.db import connection

        with closing(connection):
            while not self._stop.wait(self._pause):
                self.revision = self._edit(self.edits)
                self.edits += 1


class Seen:
    """What became of it: answers by status, what was wrong, and how many guards hold the last edit."""

    def __init__(self, pullers: Pullers, writer: Writer, client: PolicyClient) -> None:
        self.answers, self.wrong, self.edits = pullers.answers, pullers.wrong, writer.edits
        self.behind = sum(revision != writer.revision for revision in pullers.revisions)
        held = client.snapshot.bundle
        self.client_behind = held is None or held.revision != writer.revision

    def __str__(self) -> str:
        return (
            f"{self.edits} edits; answers {dict(self.answers)}; {len(self.wrong)} wrong {self.wrong[:3]};"
            f" {self.behind} pullers behind, the client {'behind' if self.client_behind else 'current'}"
        )


def pull_under_kills(
    gate: GateProcess,
    key: str,
    tenant: str,
    edit: Callable[[int], int],
    *,
    seconds: float,
    kill_every: float,
    pullers: int = 20,
) -> Seen:
    """Edit while guards pull and the gate is killed every so often; return when all hold the last edit.

    ``edit`` publishes a revision and returns its number.
    """
    pace = Pace(wait=float(WAIT), between=0.1, longest_wait=1.0)
    client = PolicyClient(gate.url, key, tenant=tenant, pace=pace)
    until = time.monotonic() + seconds
    with Pullers(gate, key, tenant, pullers) as asking:
        client.begin()
        with Writer(edit, pause=0.05) as writer:
            while time.monotonic() < until:
                time.sleep(kill_every)
                gate.restart()
                gate.wait_ready()
                if client.snapshot.bundle is None:
                    asking.wrong.append("the client lost its bundle")
        deadline = time.monotonic() + HOLD_SECONDS
        while (seen := Seen(asking, writer, client)).behind or seen.client_behind:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
    client.close()
    return seen


def editor(tenant: Any) -> Callable[[int], int]:
    """Return what publishes the next version of a tenant's policy, and the bundle's revision then."""
    from datetime import UTC, datetime

    from guardops.tenants.actors import SYSTEM
    from guardops.tenants.models import Tenant
    from policies.publish.policies import Place, save_policy

    def edit(number: int) -> int:
        document = {"limits": {"max_steps": 10 + number % 50}}
        place = Place(tenant.organisation, tenant, "research")
        save_policy(place, document, seen=number, actor=SYSTEM, now=datetime.now(UTC))
        return Tenant.objects.values_list("bundle_revision", flat=True).get(pk=tenant.pk)

    return edit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds")
    options = parser.parse_args()
    os.environ.setdefault("GUARDOPS_PROFILE", "test")
    from tests.benchmarks.own_database import own_database

    with own_database(DATABASE) as url:
        from datetime import UTC, datetime

        from tests.factories import make_key, make_tenant

        tenant = make_tenant()
        key = make_key(tenant, now=datetime.now(UTC))[1]
        with GateProcess(url) as gate:
            seen = pull_under_kills(
                gate, key, tenant.slug, editor(tenant), seconds=options.seconds, kill_every=options.kill_every
            )
    print(seen)
    sys.exit(bool(seen.wrong or seen.behind or seen.client_behind))


if __name__ == "__main__":
    main()
