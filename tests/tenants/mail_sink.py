"""A mail server of our own on loopback: it takes what is sent, or does not answer."""

from __future__ import annotations

import queue
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from email.policy import default

_SECONDS = 10


class Sink(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, *, silent: bool) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.silent = silent
        self.mails: queue.Queue[Message] = queue.Queue()
        self.ended = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def received(self) -> Message:
        """Return the next mail, as soon as there is one."""
        return self.mails.get(timeout=_SECONDS)


class _Session(socketserver.StreamRequestHandler):
    server: Sink

    def handle(self) -> None:
        if self.server.silent:
            self.server.ended.wait(_SECONDS)
            return
        self._say("220 sink")
        while line := self.rfile.readline():
            verb = line.split(b" ", 1)[0].strip().upper()
            if verb == b"DATA":
                self._say("354 go on")
                self._take()
            elif verb == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 fine")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())

    def _take(self) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        self.server.mails.put(message_from_bytes(b"".join(lines), policy=default))
        self._say("250 taken")


@contextmanager
def mail_sink(*, silent: bool = False) -> Iterator[Sink]:
    with Sink(silent=silent) as sink:
        thread = threading.Thread(target=sink.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield sink
        finally:
            sink.ended.set()
            sink.shutdown()
            thread.join()
