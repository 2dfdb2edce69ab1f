"""A small HTTP server that stands where a gate would: it answers as it is told and keeps what it got
(``sizes``: bytes, inflated).
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class LittleGate:
    """Gives its ``replies`` in turn, then accepts every event, or calls it a duplicate if it came before."""

    url: str = ""
    replies: list[Reply] = field(default_factory=list)
    requests: list[list[dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    kept: set[str] = field(default_factory=set)

    def answer(self, events: list[dict[str, Any]]) -> Reply:
        self.requests.append(events)
        if self.replies:
            return self.replies.pop(0)
        ids = [event["run_id"] for event in events]
        known = [index for index, run_id in enumerate(ids) if run_id in self.kept]
        self.kept.update(ids)
        results = [{"index": index, "status": "duplicate"} for index in known]
        return Reply(body=reply(accepted=len(ids) - len(known), duplicates=len(known), results=results))


def reply(**fields: Any) -> dict[str, Any]:
    return {"accepted": 0, "duplicates": 0, "results": []} | fields


def problem(status: int, code: str, detail: str = "", **fields: Any) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": code,
        "status": status,
        "code": code,
        "retryable": False,
        "request_id": "r1",
        "detail": detail,
    } | fields


@contextmanager
def little_gate(*replies: Reply) -> Iterator[LittleGate]:
    gate = LittleGate(replies=list(replies))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
            gate.sizes.append(len(body))
            gate.headers.append(
                {name.lower(): value for name, value in self.headers.items()} | {"path": self.path}
            )
            answer = gate.answer(json.loads(body))
            content = json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            """Keep the test's output clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    gate.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield gate
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
