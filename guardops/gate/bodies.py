"""Bodies of requests, read as they come and inflated under a cap: no sender decides how much is held."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Request

from guardops.guard.events import MAX_BODY_BYTES

from .problems import Refusal

READ_SECONDS = 10.0
MEDIA_TYPES = ("application/json", "application/x-ndjson", "application/ndjson", "application/jsonl")
# What a refused sender may still send, so that it reads the answer instead of meeting a closed connection.
MAX_DISCARDED_BYTES = 4 * MAX_BODY_BYTES
_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 256 * 1024

AnyRequest = Request[Any, Any, Any]


def is_gzipped(request: AnyRequest) -> bool:
    """Return whether the body is gzipped; refuse a type or an encoding that nobody here reads."""
    media_type, _, parameters = request.headers.get("content-type", MEDIA_TYPES[0]).lower().partition(";")
    if media_type.strip() not in MEDIA_TYPES:
        raise Refusal("unsupported_media_type", f"Send {' or '.join(MEDIA_TYPES[:2])}.")
    if "charset=" in parameters and "utf-8" not in parameters:
        raise Refusal("unsupported_media_type", "Send UTF-8.")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "gzip"}:
        raise Refusal("unsupported_encoding", "Send the body gzipped, or as it is.")
    return encoding == "gzip"


class Bodies:
    """The bodies that a process holds at one time, all together under a cap. Used on the loop alone."""

    def __init__(self, max_held_bytes: int) -> None:
        self._max_held_bytes = max_held_bytes
        self._held = 0

    @asynccontextmanager
    async def read(self, request: AnyRequest) -> AsyncIterator[bytes]:
        """Give the body, inflated; refuses one over 8 MiB or slower than ten seconds."""
        inflater = _Inflater() if is_gzipped(request) else None
        if int(request.headers.get("content-length", "0")) > MAX_BODY_BYTES:
            raise _too_large()
        parts: list[bytes] = []
        size = received = 0
        try:
            async with asyncio.timeout(READ_SECONDS):
                async for chunk in _chunks(request):
                    received += len(chunk)  # gzip of nothing inflates to nothing, for ever
                    if received > MAX_BODY_BYTES:
                        raise _too_large()
                    for part in inflater.feed(chunk) if inflater else (chunk,):
                        size += len(part)
                        self._held += len(part)
                        if size > MAX_BODY_BYTES:
                            raise _too_large()
                        if self._held > self._max_held_bytes:
                            raise Refusal("overloaded", "Too many bodies arrive at once.")
                        parts.append(part)
            if inflater and not inflater.complete:
                raise Refusal("bad_encoding", "The gzip stream ends too soon.")
            body = b"".join(parts)
            parts.clear()
            yield body
        except TimeoutError:
            raise Refusal("body_timeout", f"A body has {READ_SECONDS:.0f} seconds to arrive.") from None
        finally:
            self._held -= size


async def discard(request: AnyRequest) -> None:
    """Read on what a refused sender still sends, within bounds."""
    left = MAX_DISCARDED_BYTES
    try:
        async with asyncio.timeout(READ_SECONDS):
            async for chunk in _chunks(request):
                left -= len(chunk)
                if left < 0:
                    return
    except (TimeoutError, Refusal):
        return


async def _chunks(request: AnyRequest) -> AsyncIterator[bytes]:
    state = request.scope["state"]
    while not state.get("guardops_body_read"):
        message = await request.receive()
        if message["type"] != "http.request":
            state["guardops_body_read"] = True
            raise Refusal("bad_request", "The sender is gone.")
        state["guardops_body_read"] = not message["more_body"]
        yield message["body"]


class _Inflater:
    """Inflates gzip, of one member or several, in pieces of bounded size."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._begun = False

    @property
    def complete(self) -> bool:
        return self._member.eof or not self._begun

    def feed(self, data: bytes) -> Iterator[bytes]:
        full = False
        try:
            while data or full:
                if self._member.eof:
                    self._member = zlib.decompressobj(_GZIP)
                self._begun = True
                piece = self._member.decompress(data, _PIECE)
                full = len(piece) == _PIECE and not self._member.eof
                data = self._member.unconsumed_tail or self._member.unused_data
                yield piece
        except zlib.error:
            raise Refusal("bad_encoding", "The body is not gzip.") from None


def _too_large() -> Refusal:
    return Refusal("body_too_large", f"A body has at most {MAX_BODY_BYTES // 1024**2} MiB, inflated.")
