"""The policy client, tick by tick, against a real server that answers as the test says."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from guardops.guard.client import Pace, PolicyClient
from guardops.guard.events import PolicySource
from tests.guard.client.gate import Answer, LittleGate, bundle_answer, document_answer, nothing_new
from tests.guard.test_bundle import make_document

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
KEY = "go_0123456789ab_secret"


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def make(clock: Clock, tmp_path: Path) -> Iterator[Callable[..., PolicyClient]]:
    made: list[PolicyClient] = []

    def make(gate: LittleGate, folder: Path = tmp_path) -> PolicyClient:
        made.append(
            PolicyClient(gate.url, KEY, folder=folder, clock=clock, now=clock.now, jitter=lambda: 0.5)
        )
        return made[-1]

    yield make
    for client in made:
        client.close()


Make = Callable[..., PolicyClient]


def most_steps(client: PolicyClient) -> int:
    rules = client.snapshot.rules("research", NOW)
    return rules.policy.limits.max_steps if rules else 0


def test_first_pull_puts_the_bundle_in_force(make: Make) -> None:
    with LittleGate(bundle_answer(7)) as gate:
        client = make(gate)
        assert client.tick() == 0.0
    assert (client.snapshot.revision, client.snapshot.src, most_steps(client)) == (7, PolicySource.SERVER, 30)
    first = gate.requests[0]
    assert first["path"] == "/api/v1/bundle?wait=0"
    assert first["authorization"] == f"Bearer {KEY}"
    assert uuid.UUID(first["guardops-guard"])
    assert "guardops-applied" not in first


def test_next_pull_acknowledges_what_is_in_force_and_waits(make: Make, clock: Clock) -> None:
    with LittleGate(bundle_answer(7), nothing_new()) as gate:
        client = make(gate)
        client.tick()
        clock.seconds = 12
        client.tick()
    second = gate.requests[1]
    bundle = client.snapshot.bundle
    assert bundle is not None
    assert second["path"] == "/api/v1/bundle?wait=30"
    assert second["if-none-match"] == bundle.etag
    assert second["guardops-applied"] == f"7:{bundle.content_hash[7:23]};src=server;age=12"


def test_newer_revision_takes_the_place_of_the_older(make: Make) -> None:
    with LittleGate(bundle_answer(7), bundle_answer(8, most=5)) as gate:
        client = make(gate)
        client.tick()
        client.tick()
    assert (client.snapshot.revision, most_steps(client)) == (8, 5)


def test_older_revision_is_refused_and_reported(make: Make) -> None:
    with LittleGate(bundle_answer(7), bundle_answer(6, most=5), nothing_new()) as gate:
        client = make(gate)
        for _ in range(3):
            client.tick()
    assert (client.snapshot.revision, most_steps(client)) == (7, 30)
    assert gate.requests[2]["guardops-reject"].startswith("6:")
    assert gate.requests[2]["guardops-reject"].endswith(";older_revision")


def test_older_revision_of_a_new_epoch_is_taken(make: Make) -> None:
    with LittleGate(bundle_answer(7), bundle_answer(2, epoch="c9")) as gate:
        client = make(gate)
        client.tick()
        client.tick()
    assert client.snapshot.revision == 2


BROKEN = make_document(revision=8, max_stale_s=1) | {"content_hash": make_document()["content_hash"]}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (document_answer(BROKEN), "wrong_hash"),
        (bundle_answer(8, tenant="globex"), "wrong_tenant"),
        (bundle_answer(8, schema=2), "unknown_schema"),
        (bundle_answer(8, job_types={"x": {"limits": {"max_steps": None}}}), "invalid_policy"),
        (Answer(200, b"garbage", {"ETag": '"b7c1.8.0123456789abcdef"'}), "malformed"),
        (Answer(200, b" " * 2_000_000, {"ETag": '"b7c1.8.0123456789abcdef"'}), "too_large"),
    ],
)
def test_bundle_that_proves_nothing_leaves_the_last_good_one(make: Make, answer: Answer, code: str) -> None:
    with LittleGate(bundle_answer(7), answer, nothing_new(), nothing_new()) as gate:
        client = make(gate)
        for _ in range(4):
            client.tick()
    good = client.snapshot.bundle
    assert good is not None
    assert (client.snapshot.revision, most_steps(client)) == (7, 30)
    for request in gate.requests[2:]:
        assert request["guardops-reject"].startswith("8:")
        assert request["guardops-reject"].endswith(f";{code}")
        assert request["if-none-match"] == good.etag


def test_good_bundle_after_a_bad_one_ends_the_report(make: Make) -> None:
    with LittleGate(document_answer(BROKEN), bundle_answer(9), nothing_new()) as gate:
        client = make(gate)
        for _ in range(3):
            client.tick()
    assert client.snapshot.revision == 9
    assert "guardops-reject" not in gate.requests[2]


def test_first_bundle_that_is_refused_is_waited_on_and_not_asked_for_at_once(make: Make) -> None:
    with LittleGate(document_answer(BROKEN), nothing_new()) as gate:
        client = make(gate)
        client.tick()
        again = client.tick()
    assert gate.requests[1]["path"] == "/api/v1/bundle?wait=30"
    assert again > 0  # nobody held it


def test_nothing_new_for_a_guard_that_has_nothing_is_not_asked_for_at_once(make: Make) -> None:
    with LittleGate(nothing_new()) as gate:
        assert make(gate).tick() > 0


def test_body_that_nobody_named_is_not_asked_for_at_once(make: Make) -> None:
    with LittleGate(Answer(200, b"<html>a proxy's page</html>")) as gate:
        assert make(gate).tick() > 0


@pytest.mark.parametrize("status", [500, 502, 503, 404, 429, 301])
def test_failure_backs_off_with_full_jitter(make: Make, status: int) -> None:
    with LittleGate(Answer(status)) as gate:
        client = make(gate)
        waits = [client.tick() for _ in range(9)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


def test_server_that_is_away_backs_off_and_leaves_the_policy(make: Make) -> None:
    with LittleGate(bundle_answer(7)) as gate:
        client = make(gate)
        client.tick()
    assert client.tick() == 0.5
    assert client.snapshot.revision == 7


@pytest.mark.parametrize("status", [401, 403])
def test_refused_key_keeps_the_policy_and_asks_every_five_minutes(make: Make, status: int) -> None:
    with LittleGate(bundle_answer(7), Answer(status)) as gate:
        client = make(gate)
        client.tick()
        assert client.tick() == 300.0
    assert client.snapshot.revision == 7


def test_after_two_news_in_a_row_it_asks_once_in_five_seconds(make: Make, clock: Clock) -> None:
    with LittleGate(*(bundle_answer(number) for number in range(1, 7))) as gate:
        client = make(gate)
        assert [client.tick(), client.tick(), client.tick()] == [0.0, 0.0, 5.0]
        clock.seconds += 5
        assert client.tick() == 5.0
        clock.seconds += 60
        assert client.tick() == 0.0


def test_honoured_wait_is_followed_at_once_and_another_one_later(make: Make, clock: Clock) -> None:
    def pass_time() -> None:
        clock.seconds += 30

    held = nothing_new()
    held.hold = pass_time
    with LittleGate(
        bundle_answer(), held, nothing_new(), nothing_new(long_poll="0", poll_after="15")
    ) as gate:
        client = make(gate)
        assert [client.tick() for _ in range(4)] == [0.0, 0.0, 10.0, 15.0]


def test_bundle_is_kept_on_disk_for_its_owner_alone(make: Make, tmp_path: Path) -> None:
    with LittleGate(bundle_answer(7)) as gate:
        make(gate).tick()
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert KEY not in file.read_text()


def test_server_that_is_away_at_the_start_leaves_the_bundle_on_disk(make: Make, clock: Clock) -> None:
    with LittleGate(bundle_answer(7, most=5)) as gate:
        make(gate).tick()
    client = make(gate)
    client.begin()
    client.close()
    assert (client.snapshot.revision, client.snapshot.src, most_steps(client)) == (7, PolicySource.FILE, 5)
    bundle = client.snapshot.bundle
    assert bundle is not None
    assert client.snapshot.applied(client.snapshot.confirmed_at or NOW).endswith(";src=file;age=0")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("30", "31"),
        lambda text: "\0" * 100,
    ],
)
def test_spoilt_file_is_not_used(make: Make, tmp_path: Path, spoil: Callable[[str], str]) -> None:
    with LittleGate(bundle_answer(7)) as gate:
        make(gate).tick()
    (file,) = tmp_path.iterdir()
    file.write_text(spoil(file.read_text()))
    client = make(gate)
    client.begin()
    client.close()
    assert client.snapshot.bundle is None


def test_file_of_another_key_is_not_used(make: Make, tmp_path: Path, clock: Clock) -> None:
    with LittleGate(bundle_answer(7)) as gate:
        make(gate).tick()
    other = PolicyClient(gate.url, "go_other", folder=tmp_path, clock=clock, now=clock.now)
    other.begin()
    other.close()
    assert other.snapshot.bundle is None


def test_folder_that_can_not_be_written_costs_only_the_file(make: Make, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with LittleGate(bundle_answer(7)) as gate:
        client = make(gate, folder=blocked / "inside")
        client.tick()
    assert client.snapshot.revision == 7


def test_begin_waits_for_the_first_answer(tmp_path: Path) -> None:
    with LittleGate(bundle_answer(7), nothing_new()) as gate:
        client = PolicyClient(gate.url, KEY, folder=tmp_path, pace=Pace(wait=0.05, start=10))
        assert client.begin().revision == 7
        gate.wait_for_requests(2)
        client.close()


def test_forked_child_is_a_guard_of_its_own(tmp_path: Path) -> None:
    with LittleGate(bundle_answer(7), nothing_new("0", "1")) as gate:
        client = PolicyClient(gate.url, KEY, folder=tmp_path, pace=Pace(wait=0.05, start=10))
        client.begin()
        pid = os.fork()
        if pid == 0:
            gate_seen = client.snapshot.revision == 7 and client._thread is not None
            os._exit(0 if gate_seen and client._thread.is_alive() else 1)
        assert os.waitpid(pid, 0)[1] == 0
        client.close()


def test_child_of_a_client_that_never_began_asks_nothing(tmp_path: Path) -> None:
    with LittleGate(bundle_answer(7)) as gate:
        client = PolicyClient(gate.url, KEY, folder=tmp_path)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if client._thread is None else 1)
        assert os.waitpid(pid, 0)[1] == 0
    assert gate.requests == []


def test_bundle_from_the_wire_is_what_is_on_disk(make: Make, tmp_path: Path) -> None:
    document = make_document(revision=3)
    with LittleGate(document_answer(document)) as gate:
        make(gate).tick()
    (file,) = tmp_path.iterdir()
    assert msgspec.json.decode(file.read_bytes()) == document
