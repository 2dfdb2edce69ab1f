"""Thousands of guards in a few processes, each with a connection, a request that waits, and its last bundle.

They are lighter than real guards, so that what is measured is the gate: they prove nothing, keep the time at
which the whole bundle was in hand, and ask again at once.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
import uuid
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import uvloop

CONNECT_AT_ONCE = 200
ANSWER_SECONDS = 120.0
_ETAG = re.compile(rb'\r\netag: ("[^."]+\.(\d+)\.[^"]+")', re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Door:
    """Where guards ask, and with which key."""

    address: tuple[str, int]
    key: str


@dataclass(frozen=True, slots=True)
class Known:
    """What all guards know: how many there are, how many wait, and who holds which revision since when."""

    guards: int
    waiting: int
    answers: int
    held: Sequence[tuple[int, float]]

    def times(self, revision: int) -> list[float]:
        """Return when (monotonic seconds) each guard that has this revision or a later one got it."""
        return [at for held, at in self.held if held >= revision]


class _Guard(asyncio.Protocol):
    """One guard: asks, reads the whole answer, and asks again."""

    def __init__(self, door: Door, wait: float, fleet: _Fleet) -> None:
        self._fleet = fleet
        self._wait = wait
        self._fixed = (
            f"Host: gate\r\nAuthorization: Bearer {door.key}\r\nAccept-Encoding: gzip\r\n"
            f"User-Agent: guardops-guard/0.1.0\r\nGuardOps-Guard: {uuid.uuid4()}\r\n"
        ).encode()
        self._etag, self._buffer = b"", b""
        self._transport: Any = None
        self.revision, self.at = 0, 0.0
        self.waiting = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.ask(0.0)  # so that its answer tells that the server has taken this connection

    def ask(self, wait: float) -> None:
        said = self._said() if self._etag else b""
        path = f"/api/v1/bundle?wait={wait:g}".encode()
        self._transport.write(b"GET %b HTTP/1.1\r\n%b%b\r\n" % (path, self._fixed, said))
        self.waiting = wait > 0

    def _said(self) -> bytes:
        _, revision, hash16 = self._etag.strip(b'"').split(b".")
        return b"If-None-Match: %b\r\nGuardOps-Applied: %b:%b;src=server;age=12\r\n" % (
            self._etag,
            revision,
            hash16,
        )

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        length = _LENGTH.search(head)
        if len(body) < (int(length[1]) if length else 0):
            return
        self._buffer, self.waiting = b"", False
        self._answered(int(head[9:12]), head)

    def _answered(self, status: int, head: bytes) -> None:
        if status not in (200, 304) or (found := _ETAG.search(head)) is None:
            raise SystemExit(f"a guard was answered {head!r}")
        self._fleet.answers += 1
        self._fleet.etag = found[1].decode()
        if status == 200:
            self._etag, self.revision, self.at = found[1], int(found[2]), time.monotonic()
        if self._fleet.asking:
            self.ask(self._wait)

    def connection_lost(self, error: Exception | None) -> None:
        self.waiting = False
        self._buffer = b""
        self._fleet.lost(self)

    def hang_up(self) -> None:
        self._transport.close()


class _Fleet:
    """The guards of one process, and what they are told to do."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._guards: list[_Guard] = []
        self._again: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(CONNECT_AT_ONCE)
        self.asking = True
        self.answers = 0
        self.etag = ""

    async def open(self, count: int, wait: float) -> None:
        """Connect so many more guards."""
        more = [_Guard(self._door, wait, self) for _ in range(count)]
        self._guards += more
        await asyncio.gather(*map(self._connect, more))

    async def _connect(self, guard: _Guard) -> None:
        async with self._places:
            while self.asking:
                with suppress(OSError):
                    await asyncio.get_running_loop().create_connection(lambda: guard, *self._door.address)
                    return
                await asyncio.sleep(0.05)

    def lost(self, guard: _Guard) -> None:
        if self.asking:
            task = asyncio.get_running_loop().create_task(self._connect(guard))
            self._again.add(task)
            task.add_done_callback(self._again.discard)

    async def poll(self, count: int, every: float, seconds: float) -> int:
        """Ask without a wait from ``count`` guards, each with a new connection every so often."""
        asked = 0

        async def once(delay: float) -> None:
            nonlocal asked
            await asyncio.sleep(delay)
            reader, writer = await asyncio.open_connection(*self._door.address)
            writer.write(
                f"GET /api/v1/bundle HTTP/1.1\r\nHost: gate\r\nAuthorization: Bearer {self._door.key}\r\n"
                f"GuardOps-Guard: {uuid.uuid4()}\r\nIf-None-Match: {self.etag}\r\n\r\n".encode()
            )
            if b" 304 " not in (await reader.readuntil(b"\r\n\r\n"))[:20]:
                raise SystemExit("a poll was answered otherwise than with 304")
            asked += 1
            writer.close()

        times = round(count * seconds / every)
        await asyncio.gather(*(once(seconds * place / times) for place in range(times)))
        return asked

    async def know(self) -> Known:
        waiting = sum(guard.waiting for guard in self._guards)
        held = [(guard.revision, guard.at) for guard in self._guards]
        return Known(len(self._guards), waiting, self.answers, held)

    async def close(self) -> None:
        self.asking = False
        for guard in self._guards:
            guard.hang_up()
        self._guards.clear()
        await asyncio.sleep(0.1)
        self.asking = True


def _serve(pipe: Connection, door: Door) -> None:
    async def serve() -> None:
        loop, fleet = asyncio.get_running_loop(), _Fleet(door)
        while (order := await loop.run_in_executor(None, pipe.recv)) is not None:
            name, *arguments = order
            pipe.send(await getattr(fleet, name)(*arguments))

    uvloop.run(serve())


class Guards:
    """Guards in ``processes`` processes of their own."""

    def __init__(self, door: Door, processes: int = 2) -> None:
        self._door, self._count = door, processes
        self._pipes: list[Connection] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        for _ in range(self._count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, self._door), daemon=True)
            process.start()
            self._stack.callback(process.join, 10)
            self._stack.callback(ours.send, None)
            self._pipes.append(ours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def open(self, count: int, wait: float = 30.0) -> None:
        """Connect so many more guards; those with a wait are waiting when this returns."""
        share, rest = divmod(count, len(self._pipes))
        self._tell(*[("open", share + (place < rest), wait) for place in range(len(self._pipes))])

    def know(self) -> Known:
        parts: list[Known] = self._tell(*[("know",)] * len(self._pipes))
        return Known(
            sum(part.guards for part in parts),
            sum(part.waiting for part in parts),
            sum(part.answers for part in parts),
            [pair for part in parts for pair in part.held],
        )

    def poll(self, count: int, every: float, seconds: float) -> int:
        """Let so many guards ask every so often, without waiting; return how many times that was."""
        share = count // len(self._pipes)
        return sum(self._tell(*[("poll", share, every, seconds)] * len(self._pipes)))

    def close(self) -> None:
        """Let all guards hang up."""
        self._tell(*[("close",)] * len(self._pipes))

    def _tell(self, *orders: tuple[Any, ...]) -> list[Any]:
        for pipe, order in zip(self._pipes, orders, strict=True):
            pipe.send(order)
        answers = []
        for pipe in self._pipes:
            if not pipe.poll(ANSWER_SECONDS):
                raise SystemExit("the guards' process does not answer")
            answers.append(pipe.recv())
        return answers
