from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from guardops.local.processes import spawn
from guardops.local.valkey import Valkey
from tests.local.waiting import until

Start = Callable[[], tuple[Valkey, subprocess.Popen[bytes]]]


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    processes = []

    def start() -> tuple[Valkey, subprocess.Popen[bytes]]:
        broker = Valkey(home)
        broker.prepare()
        processes.append(spawn(broker.command(), output=subprocess.DEVNULL))
        until(broker.is_ready)
        return broker, processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_it_listens_on_a_private_socket_only(
    start: Start,
) -> None:
    broker, _ = start()
    client = redis.Redis(unix_socket_path=str(broker.socket))
    assert client.config_get("port") == {"port": "0"}
    assert broker.socket.stat().st_mode & 0o777 == 0o700
    assert broker.socket.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_queued_outlives_its_end(start: Start, signum: int) -> None:
    broker, process = start()
    redis.Redis(unix_socket_path=str(broker.socket)).rpush("queue", b"task")
    process.send_signal(signum)
    process.wait()
    broker, _ = start()
    assert redis.Redis(unix_socket_path=str(broker.socket)).lrange("queue", 0, -1) == [b"task"]
