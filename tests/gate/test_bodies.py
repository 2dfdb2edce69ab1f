from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from typing import Any

import pytest
from litestar import Request

from guardops.gate import bodies
from guardops.gate.bodies import Bodies, _Inflater
from guardops.gate.problems import Refusal


def make_request(receive: Any) -> Request[Any, Any, Any]:
    scope: Any = {"type": "http", "method": "POST", "path": "/", "headers": [], "state": {}}
    return Request(scope, receive)


async def read(request: Request[Any, Any, Any], *, max_held_bytes: int = 1_000) -> bytes:
    async with Bodies(max_held_bytes).read(request) as body:
        return body


def refusal(receive: Any, **options: Any) -> str:
    with pytest.raises(Refusal) as error:
        asyncio.run(read(make_request(receive), **options))
    return error.value.code


def test_body_that_does_not_arrive_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(bodies, "READ_SECONDS", 0.01)
    assert refusal(never) == "body_timeout"


def test_sender_that_leaves_ends_the_request() -> None:
    async def leave() -> Any:
        return {"type": "http.disconnect"}

    assert refusal(leave) == "bad_request"


def test_bodies_that_are_held_together_are_bounded() -> None:
    async def send() -> Any:
        return {"type": "http.request", "body": b"x" * 600, "more_body": True}

    assert refusal(send, max_held_bytes=1_000) == "overloaded"


def test_body_that_is_done_is_no_longer_held() -> None:
    async def send() -> Any:
        return {"type": "http.request", "body": b"x" * 600, "more_body": False}

    async def read_twice() -> None:
        held = Bodies(1_000)
        for _ in range(2):
            async with held.read(make_request(send)) as body:
                assert body == b"x" * 600

    asyncio.run(read_twice())


def test_gzip_of_nothing_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send_on() -> Any:
        return {"type": "http.request", "body": gzip.compress(b"") * 10, "more_body": True}

    monkeypatch.setattr(bodies, "MAX_BODY_BYTES", 1_000)
    request = make_request(send_on)
    request.scope["headers"] = [(b"content-encoding", b"gzip")]
    with pytest.raises(Refusal) as error:
        asyncio.run(read(request))
    assert error.value.code == "body_too_large"


def test_bomb_is_inflated_in_pieces_of_bounded_size() -> None:
    bomb = gzip.compress(b" " * 200_000_000)
    tracemalloc.start()
    try:
        assert sum(len(piece) for piece in _Inflater().feed(bomb)) == 200_000_000
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_body_that_comes_in_bits_is_inflated_whole(size: int) -> None:
    sent = gzip.compress(b"abc" * 100_000) + gzip.compress(b"def")
    inflater = _Inflater()
    got = b"".join(
        piece for start in range(0, len(sent), size) for piece in inflater.feed(sent[start : start + size])
    )
    assert got == b"abc" * 100_000 + b"def"
    assert inflater.complete


def test_body_that_ends_too_soon_is_not_complete() -> None:
    inflater = _Inflater()
    list(inflater.feed(gzip.compress(b"abc")[:-1]))
    assert not inflater.complete


def test_body_that_is_no_gzip_is_refused() -> None:
    with pytest.raises(Refusal):
        list(_Inflater().feed(b"plain"))
