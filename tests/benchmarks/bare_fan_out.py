"""What the gate's fan-out is compared with: asyncio that writes the same bytes to the same connections."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import uvloop

from guardops.local import ports


class _Held(asyncio.Protocol):
    """A connection whose first request is answered at once; the others wait for the next publication."""

    def __init__(self, fan: _Fan) -> None:
        self._fan = fan
        self._answered = False
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not data.endswith(b"\r\n\r\n"):
            raise SystemExit("a request came in pieces")
        if self._answered:
            self._fan.waiting.append(self._transport)
        else:
            self._answered = True
            self._transport.write(self._fan.answer())


class _Fan:
    def __init__(self, body: bytes) -> None:
        self.waiting: list[Any] = []
        self._body, self._revision = body, 1

    def answer(self) -> bytes:
        head = (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n"
            "cache-control: private, no-store\r\nvary: Authorization\r\nguardops-long-poll: 1\r\n"
            "guardops-poll-after: 10\r\n"
            f'etag: "bare.{self._revision}.0123456789abcdef"\r\nguardops-revision: {self._revision}\r\n'
            f"content-length: {len(self._body)}\r\n\r\n"
        )
        return head.encode() + self._body

    def publish(self) -> int:
        self._revision += 1
        answer, waiting = self.answer(), self.waiting
        self.waiting = []
        for transport in waiting:
            transport.write(answer)
        return self._revision


def _serve(pipe: Connection, door: Any, body: bytes) -> None:
    async def serve() -> None:
        fan, loop = _Fan(body), asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Held(fan), sock=door)
        while await loop.run_in_executor(None, pipe.recv):
            pipe.send(fan.publish())
        server.close()

    uvloop.run(serve())


class BareFanOut:
    """A process that answers every waiting connection with ``body`` when it is told to."""

    def __init__(self, body: bytes) -> None:
        self.door = ports.listen("127.0.0.1", 0)
        self.address: tuple[str, int] = self.door.getsockname()[:2]
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self.door, body), daemon=True)

    def publish(self) -> tuple[int, float]:
        """Publish the next revision; return it and when (monotonic seconds) that was asked for."""
        began = time.monotonic()
        self._pipe.send(True)
        return self._pipe.recv(), began

    def __enter__(self) -> Self:
        self._process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.send(False)
        self._process.join(10)
        self.door.close()
