"""How long a request asks to be held, and how it is noticed that nobody waits for the answer any more."""

from __future__ import annotations

import functools
import random
from urllib.parse import parse_qs

from litestar.types import Receive

from .problems import Refusal

MAX_WAIT = 60.0


def seconds_to_hold(query: bytes) -> float:
    """Return for how long a request may be held: as asked, and a sixteenth more at random."""
    return wait_asked(query) * random.uniform(1, 17 / 16)


@functools.lru_cache(maxsize=64)
def wait_asked(query: bytes) -> float:
    """Return the seconds that ``wait`` asks for in a query, none by default."""
    text = parse_qs(query.decode("latin-1")).get("wait", ["0"])[-1]
    try:
        asked = float(text)
    except ValueError:
        asked = float("nan")
    if not 0 <= asked <= MAX_WAIT:
        raise Refusal("bad_request", f"wait lies between 0 and {MAX_WAIT:.0f} seconds.")
    return asked


async def hung_up(receive: Receive) -> None:
    """Return when whoever sent the request has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
