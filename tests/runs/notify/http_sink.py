"""A web server of our own on loopback: it keeps what is posted to it, and answers as a test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Posted:
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answering:
    status: int = 202
    body: bytes = b"thank you"
    headers: dict[str, str] = field(default_factory=dict)
    before: Callable[[], None] = lambda: None
    """Called when a request is there and before it is answered."""


class Sink(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.posted: list[Posted] = []
        self.answering = Answering()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook/secret-path"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: Sink

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.posted.append(Posted(self.path, headers, body))
        answer = self.server.answering
        answer.before()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_POST  # noqa: N815 (the library looks for that name)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def http_sink() -> Iterator[Sink]:
    with Sink() as sink:
        thread = threading.Thread(target=sink.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield sink
        finally:
            sink.shutdown()
            thread.join()
