"""Which calls are the same: canonical arguments and their digest, computed before the call runs.

The canonical form is JSON in UTF-8 with sorted keys and no spaces. What can't be written in it (non-finite
numbers, foreign types, keys that are no text) is refused rather than guessed at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from guardops.guard.policy import ToolSpec

VOLATILE_ANYWHERE = frozenset({"request_id", "trace_id", "span_id", "idempotency_key"})
"""Identifiers that frameworks inject at any depth; they say nothing about the call."""

VOLATILE_AT_TOP = VOLATILE_ANYWHERE | {"timestamp", "ts", "_ts", "task_progress"}
"""Time stamps and notes are injected beside the arguments; deeper down they are data."""

CREDENTIALS = frozenset(
    {
        "access_token",
        "api-key",
        "api_key",
        "apikey",
        "authorization",
        "bearer_token",
        "client_secret",
        "cookie",
        "id_token",
        "passwd",
        "password",
        "private_key",
        "proxy-authorization",
        "proxy_authorization",
        "refresh_token",
        "secret",
        "secret_key",
        "session_token",
        "set-cookie",
        "x-api-key",
    }
)
"""Argument names, in lower case, that hold credentials: never hashed, since a digest could be searched."""

MAX_DEPTH = 64
_AS_THEY_ARE = frozenset({str, int, bool, type(None)})
"""Types that are canonical already; most arguments are of these, so they are spared a call."""
_encode = msgspec.json.Encoder(order="sorted").encode


class FingerprintError(ValueError):
    """Arguments that have no canonical form; the message names the place and never the value."""

    code = "invalid_arguments"


class Fingerprint(Struct, frozen=True):
    """A call's identity: ``digest`` (64 hex) over tool, canonical arguments and side-effect class."""

    digest: str
    canonical: bytes


def fingerprint(tool: str, args: Mapping[str, Any], spec: ToolSpec) -> Fingerprint:
    """Return the identity of a call. Raises :class:`FingerprintError` for what has no canonical form."""
    canonical = canonical_args(args, spec)
    return Fingerprint(_digest(tool, canonical, spec), canonical)


def recorded(tool: str, identity: str, args: Mapping[str, Any], spec: ToolSpec) -> Fingerprint:
    """Return the identity of a call that a recorder has already reduced to ``identity``.

    What is left of its arguments is only shown. Raises :class:`FingerprintError` like :func:`fingerprint`.
    """
    return Fingerprint(_digest(tool, _encode(identity), spec), canonical_args(args, spec))


def canonical_args(args: Mapping[str, Any], spec: ToolSpec) -> bytes:
    """Return the canonical JSON of the arguments that make a call's identity under ``spec``."""
    if type(args) is not dict and not isinstance(args, Mapping):
        raise FingerprintError("arguments must be an object")
    if spec.fields:
        unexpected = args.keys() - spec.fields - VOLATILE_AT_TOP
        if unexpected:
            raise FingerprintError(f"{min(map(str, unexpected))}: is not an argument of this tool")
    try:
        return _encode(_clean_top(args, spec))
    except RecursionError as error:
        raise FingerprintError("arguments are nested too deeply") from error
    except (OverflowError, UnicodeEncodeError, msgspec.ValidationError, TypeError) as error:
        raise FingerprintError("arguments can't be written as JSON") from error


def _digest(tool: str, canonical: bytes, spec: ToolSpec) -> str:
    return sha256(_head(tool, spec.side_effect) + canonical).hexdigest()


@lru_cache(maxsize=1_024)
def _head(tool: str, side_effect: str) -> bytes:
    # A length before the name keeps (tool, arguments) pairs apart whatever characters a name holds.
    return f"{len(tool)}|{tool}|{side_effect}|".encode(errors="backslashreplace")


def _clean_top(args: Mapping[str, Any], spec: ToolSpec) -> dict[str, Any]:
    keep, volatile, credentials = spec.key, spec.volatile, spec.credentials
    special = spec.sets or spec.strip or spec.casefold
    cleaned: dict[str, Any] = {}
    for name, value in args.items():
        if type(name) is not str:
            raise FingerprintError("argument names must be text")
        if keep:
            if name not in keep:
                continue
        elif name in VOLATILE_AT_TOP or name in volatile:
            continue
        if (value is None and spec.null_is_omitted) or name in credentials or name.lower() in CREDENTIALS:
            continue
        if special:
            value = _rewrite(name, value, spec)
        cleaned[name] = value if type(value) in _AS_THEY_ARE else _clean(value, name, spec, 1)
    return cleaned


def _clean(value: Any, where: str, spec: ToolSpec, depth: int) -> Any:
    """Return ``value`` in its canonical shape; ``where`` names the argument in errors."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise FingerprintError(f"{where}: holds a number that is not finite")
        return int(value) if value.is_integer() else value
    if depth > MAX_DEPTH:
        raise FingerprintError(f"{where}: is nested too deeply")
    if kind is list or kind is tuple:
        return [
            item if type(item) in _AS_THEY_ARE else _clean(item, where, spec, depth + 1) for item in value
        ]
    if kind is dict or isinstance(value, Mapping):
        return _clean_object(value, where, spec, depth)
    if isinstance(value, str):
        return str(value)
    raise FingerprintError(f"{where}: holds a {kind.__name__}, which is not JSON")


def _clean_object(value: Mapping[Any, Any], where: str, spec: ToolSpec, depth: int) -> dict[str, Any]:
    cleaned = {}
    for name, item in value.items():
        if type(name) is not str:
            raise FingerprintError(f"{where}: holds a name that is not text")
        if (
            name in VOLATILE_ANYWHERE
            or name in spec.volatile
            or name in spec.credentials
            or name.lower() in CREDENTIALS
            or (item is None and spec.null_is_omitted)
        ):
            continue
        cleaned[name] = item if type(item) in _AS_THEY_ARE else _clean(item, where, spec, depth + 1)
    return cleaned


def _rewrite(name: str, value: Any, spec: ToolSpec) -> Any:
    """Apply what the tool's specification says of one argument: strip, fold case, order a set."""
    if name in spec.sets and isinstance(value, list | tuple):
        cleaned = [_clean(_text(name, item, spec), name, spec, 2) for item in value]
        by_form = {_encode(item): item for item in cleaned}
        return [by_form[form] for form in sorted(by_form)]
    return _text(name, value, spec)


def _text(name: str, value: Any, spec: ToolSpec) -> Any:
    if isinstance(value, str):
        if name in spec.strip:
            value = value.strip()
        if name in spec.casefold:
            value = value.casefold()
    return value
