"""Whether a JSON object has a key twice: the last one counts, but other readers may take the first. Pure.

No decoder tells. What a guard sends is the very encoding of what was decoded, which shows that nothing was
dropped; of others keys are counted, and only where the counts differ is each object looked at.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from guardops.guard.wire import Event

_encode = msgspec.json.Encoder().encode
_encode_into = msgspec.json.Encoder().encode_into
_decode = msgspec.json.Decoder().decode
_KEY = b'":'
_QUOTE = rb"\u0022"  # would be counted as a key once it is encoded again


def has_repeated_keys(raw: bytes, event: Event, scratch: bytearray) -> bool:
    """Say whether an object in the JSON of a decoded event has a key twice; overwrites ``scratch``."""
    _encode_into(event, scratch)
    if scratch == raw:
        return False
    return not _has_as_many_keys(raw) and _looks_repeated(raw)


def _has_as_many_keys(raw: bytes) -> bool:
    try:
        return _QUOTE not in raw and raw.count(_KEY) == _encode(_decode(raw)).count(_KEY)
    except msgspec.MsgspecError:  # a number beyond a machine word
        return False


def _looks_repeated(raw: bytes) -> bool:
    found = False

    def look(pairs: list[tuple[str, Any]]) -> None:
        nonlocal found
        found = found or len({key for key, _ in pairs}) < len(pairs)

    json.loads(raw, object_pairs_hook=look, parse_int=str, parse_float=str)
    return found
