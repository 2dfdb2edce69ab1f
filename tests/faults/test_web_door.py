"""The door for people under slow clients and restarts: real processes on loopback."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from guardops.local import ports
from guardops.web import BODY_LIMIT
from tests.local.waiting import until

pytestmark = pytest.mark.fault

CHECKOUT = Path(__file__).resolve().parents[2]
SLOW_APPLICATION = """
import socket, sys, time
from guardops.web import serve

def application(environ, start_response):
    time.sleep(float(environ["QUERY_STRING"] or 0))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"done"]

serve(application, socket.socket(fileno=int(sys.argv[1])), threads=8)
"""
Start = Callable[[list[str]], subprocess.Popen[bytes]]


@pytest.fixture
def door() -> Iterator[socket.socket]:
    with ports.listen("127.0.0.1", 0) as door:
        yield door


@pytest.fixture
def start(door: socket.socket) -> Iterator[Start]:
    """Start a server on the test's listening socket."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(arguments: list[str], **environment: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, *arguments, str(door.fileno())],
            pass_fds=[door.fileno()],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT), **environment},
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()


def get(door: socket.socket, path: str, timeout: float = 30.0) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", door.getsockname()[1], timeout=timeout)) as client:
        client.request("GET", path)
        return client.getresponse().status


def test_five_hundred_half_sent_bodies_delay_no_page(
    door: socket.socket, start: Start, database_url: str
) -> None:
    start([str(CHECKOUT / "manage.py"), "web", "--fd"], DATABASE_URL=database_url, GUARDOPS_PROCESS="web")
    assert get(door, "/login/") == 200
    slow = [socket.create_connection(door.getsockname()[:2]) for _ in range(500)]
    for client in slow:
        client.sendall(b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nusername=")
    asked = time.monotonic()
    assert get(door, "/login/", timeout=5) == 200
    assert time.monotonic() - asked < 1.0
    for client in slow:
        client.close()


def test_sigterm_answers_what_is_under_way_and_ends(door: socket.socket, start: Start) -> None:
    server = start(["-c", SLOW_APPLICATION])
    assert get(door, "/") == 200
    answers: list[int] = []
    client = threading.Thread(target=lambda: answers.append(get(door, "/?1.0")))
    client.start()
    until(lambda: _has_connection(server.pid, door))
    server.send_signal(signal.SIGTERM)
    assert server.wait(10) == 0
    client.join()
    assert answers == [200]


def test_ten_restarts_fail_no_client(door: socket.socket, start: Start) -> None:
    server = start(["-c", SLOW_APPLICATION])
    answers: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answers.append(get(door, "/?0.01"))

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    for _ in range(10):
        seen = len(answers)
        until(lambda seen=seen: len(answers) > seen + 4)
        server.send_signal(signal.SIGTERM)
        assert server.wait(15) == 0
        server = start(["-c", SLOW_APPLICATION])
    stop.set()
    for client in clients:
        client.join()
    assert set(answers) == {200}


def test_a_body_over_the_limit_is_refused_before_it_is_read(door: socket.socket, start: Start) -> None:
    start(["-c", SLOW_APPLICATION])
    with socket.create_connection(door.getsockname()[:2], timeout=10) as client:
        head = f"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: {BODY_LIMIT + 1}\r\n\r\n"
        client.sendall(head.encode())
        assert client.recv(100).startswith(b"HTTP/1.1 413")


def _has_connection(pid: int, door: socket.socket) -> bool:
    """Tell whether the server's side of a connection to the door is established."""
    port = f"{door.getsockname()[1]:04X}"
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    fields = [line.split() for line in lines]
    accepted = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    return any(f[1].endswith(f":{port}") and f[3] == "01" and f"socket:[{f[9]}]" in accepted for f in fields)


def test_rolling_restarts_of_real_pages_fail_no_client(
    door: socket.socket, start: Start, database_url: str
) -> None:
    """One begins before the other ends, as where a release is rolled out."""
    web = [str(CHECKOUT / "manage.py"), "web", "--fd"]
    environment = {"DATABASE_URL": database_url, "GUARDOPS_PROCESS": "web"}
    server = start(web, **environment)
    answers: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answers.append(get(door, "/login/"))

    clients = [threading.Thread(target=ask) for _ in range(3)]
    for client in clients:
        client.start()
    for _ in range(2):
        following = start(web, **environment)
        until(lambda pid=following.pid: _has_connection(pid, door), 60)
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
        server = following
    stop.set()
    for client in clients:
        client.join()
    assert len(answers) > 10
    assert set(answers) == {200}
