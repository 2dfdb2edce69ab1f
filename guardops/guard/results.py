"""What a tool's result is to the guard: a digest, and whether there is anything in it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec

from guardops.guard.fingerprint import VOLATILE_ANYWHERE
from guardops.guard.policy import ToolSpec

_encode = msgspec.json.Encoder(order="sorted").encode
_COUNTS = frozenset({"total", "count"})
_MAX_TEXT = 4_096
_MAX_DEPTH = 32


def digest_of(result: object, spec: ToolSpec) -> tuple[str, int]:
    """Return 32 hex digits that are equal for equal results, and the result's size in bytes.

    Injected identifiers and the fields that the tool declares volatile don't make a result another one. A
    value that JSON can't hold counts by its representation.
    """
    if type(result) is str:
        payload = result.encode(errors="surrogatepass")
    else:
        try:
            payload = _encode(_without_volatile(result, spec))
        except (TypeError, ValueError, OverflowError, RecursionError):
            payload = _representation(result)
    return sha256(payload).hexdigest()[:32], len(payload)


def _representation(result: object) -> bytes:
    try:
        return repr(result).encode(errors="backslashreplace")
    except RecursionError:
        return b"nested too deeply"


def _without_volatile(result: object, spec: ToolSpec) -> object:
    if not isinstance(result, Mapping):
        return result
    volatile = VOLATILE_ANYWHERE | spec.volatile
    if volatile.isdisjoint(result):
        return result
    return {name: value for name, value in result.items() if name not in volatile}


def is_empty(result: object, spec: ToolSpec) -> bool:
    """Say whether a result holds nothing.

    That is: every leaf is null, "", [] or {}, or a 0 under total or count; or the tool declares the result as
    empty. A text that is itself a JSON array, object or null is read as such.
    """
    if spec.empty and any(result == value and type(result) is type(value) for value in spec.empty):
        return True
    if type(result) is str:
        return not result or (len(result) <= _MAX_TEXT and _is_empty_json(result))
    return _holds_nothing(result, 0)


def _is_empty_json(text: str) -> bool:
    stripped = text.strip()
    if stripped == "null":
        return True
    if stripped[:1] not in ("[", "{"):
        return False
    try:
        value: Any = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return _holds_nothing(value, 0)


def _holds_nothing(value: object, depth: int) -> bool:
    if value is None:
        return True
    if isinstance(value, str):
        return not value
    if depth > _MAX_DEPTH:
        return False
    if isinstance(value, Mapping):
        return all(
            _holds_nothing(item, depth + 1) or (name in _COUNTS and type(item) in (int, float) and item == 0)
            for name, item in value.items()
        )
    if isinstance(value, list | tuple):
        return all(_holds_nothing(item, depth + 1) for item in value)
    return False
