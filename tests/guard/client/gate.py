"""A gate that answers pulls as a test says: a real server on loopback, its replies in a queue."""

from __future__ import annotations

import gzip
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Thread
from typing import Any, Self

import msgspec

from guardops.guard.bundle import content_hash, etag
from tests.guard.test_bundle import make_document


@dataclass
class Answer:
    """One reply: status, body and headers; ``hold`` keeps it back until it returns."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hold: Callable[[], object] | None = None


def bundle_answer(revision: int = 1, *, most: int = 30, epoch: str = "b7c1", **changes: Any) -> Answer:
    """Return a 200 with a bundle that proves itself."""
    document = make_document(
        revision=revision, epoch=epoch, defaults={"limits": {"max_steps": most}}, **changes
    )
    return document_answer(document)


def document_answer(document: dict[str, Any], **headers: str) -> Answer:
    hash_ = document.get("content_hash", content_hash(document))
    tag = etag(document["epoch"], document["revision"], hash_)
    body = gzip.compress(msgspec.json.encode(document))
    sent = {"ETag": tag, "GuardOps-Long-Poll": "1", "Content-Encoding": "gzip"} | headers
    return Answer(200, body, sent)


def nothing_new(long_poll: str = "1", poll_after: str = "10") -> Answer:
    return Answer(304, b"", {"GuardOps-Long-Poll": long_poll, "GuardOps-Poll-After": poll_after})


class LittleGate:
    """Serves the answers in order, the last one for ever; keeps the headers of each request."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = deque(answers)
        self.requests: list[dict[str, str]] = []
        self._changed = Condition()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                answer = outer._next({"path": self.path} | {k.lower(): v for k, v in self.headers.items()})
                if answer.hold is not None:
                    answer.hold()
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                if answer.status != 304:
                    self.send_header("Content-Length", str(len(answer.body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _next(self, headers: dict[str, str]) -> Answer:
        with self._changed:
            self.requests.append(headers)
            self._changed.notify_all()
            return self.answers.popleft() if len(self.answers) > 1 else self.answers[0]

    def wait_for_requests(self, count: int, seconds: float = 10.0) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, seconds)

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
