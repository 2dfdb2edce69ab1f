"""From the bytes of a request to typed events, each with its own error where it has one. Pure.

The common event costs one pass: a strict decoder, which forbids unknown fields, takes it. What that refuses
is looked at again by itself, slowly, to say what is wrong or to count the fields that nobody knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, cast

import msgspec

from guardops.guard.checkpoints import CheckpointOpened
from guardops.guard.events import (
    MAX_DEPTH,
    MAX_EVENT_BYTES,
    MAX_EVENTS,
    MAX_KEYS,
    RunEnded,
    RunHeartbeat,
    RunStarted,
    WorkRefused,
)
from guardops.guard.replies import EventResult, ResultStatus
from guardops.guard.wire import Event
from guardops.tenants.errors import GuardOpsError

from .repeated import has_repeated_keys
from .strict import strict, unknown_fields

_KINDS = (RunStarted, RunHeartbeat, RunEnded, CheckpointOpened, WorkRefused)
TYPES = tuple(str(kind.__struct_config__.tag) for kind in _KINDS)


class BadBody(GuardOpsError):
    """A body of which nothing can be used: ``not_json``, ``not_events`` or ``too_many_events``."""

    default_code = "not_json"


class Rejected(GuardOpsError):
    """One event that can't be taken, with the field that is to blame where one is."""

    default_code = "invalid"

    def __init__(self, message: str, *, code: str, field: str = "") -> None:
        super().__init__(message, code=code)
        self.field = field

    def result(self, index: int) -> EventResult:
        return EventResult(
            index=index,
            status=ResultStatus.REJECTED,
            code=self.code,
            field=self.field[:200],
            message=self.message[:300],
        )


class Arrival(msgspec.Struct, frozen=True):
    """An event that decodes, and its place in the request. (A struct: a thousand are made a request.)"""

    index: int
    event: Event
    sanitized: bool = False


@dataclass(slots=True)
class Decoded:
    """What a body holds beside the events that decode: how many in all, and what is wrong with the others."""

    total: int = 0
    rejected: list[EventResult] = field(default_factory=list)
    unknown_fields: int = 0


class _Envelope(msgspec.Struct):
    events: list[msgspec.Raw] | msgspec.UnsetType = msgspec.UNSET


_raw_list = msgspec.json.Decoder(list[msgspec.Raw])
_envelope = msgspec.json.Decoder(_Envelope)
_anything = msgspec.json.Decoder()
_strict = msgspec.json.Decoder(
    strict(RunEnded)
    | strict(RunStarted)
    | strict(RunHeartbeat)
    | strict(WorkRefused)
    | strict(CheckpointOpened)
)
_lenient = msgspec.json.Decoder(Event)

_SMALL = 5 * MAX_KEYS  # bytes: a key takes five at least (`"":0,`), so less than this needs no counting
_MANY_VALUES = 250_000  # in a body: the decoder would hold each, where events are full of lists
_BOM = b"\xef\xbb\xbf"
_HEX = rb"[0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB]" + _HEX + rb"\\u[dD][c-fC-F]" + _HEX + rb"|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
# Escaped NULs and lone surrogates, which no database stores. Until the events are apart a noncharacter stands
# for them, then U+FFFD.
_MARK = rb"\ufdd0"
_UNWANTED = re.compile(rb"\\u(?:0000|[dD][89a-fA-F]" + _HEX + rb")")
_NOT_FINITE = re.compile(rb"NaN|Infinity")  # what Python's own encoder writes, and no JSON has
_OPENING = re.compile(rb'\{\s*"events"\s*:\s*(?=\[)')
_LINE = re.compile(rb"[^\r\n]+")
# A string without an end is one as well, so that what follows its beginning is looked at only once.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)|[\[\]{},]', re.DOTALL)
_PLACE = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"missing required field `(.*?)`")
_RANGE = re.compile(r"out of range|[<>]=|of length")


def decode(body: bytes, decoded: Decoded) -> Iterator[Arrival]:
    """Decode an array of events, ``{"events": […]}``, a single event, or one event a line; fills ``decoded``.

    Gives one event at a time, so that a thousand need not be held. Raises BadBody where the body as a whole
    is no such thing, or holds more than 1,000 events.
    """
    body = body.removeprefix(_BOM).strip()
    marked = _UNWANTED.search(body) is not None
    if marked:
        body = _ESCAPE.sub(_mark, body)
    raws = _split(body)
    if len(raws) > MAX_EVENTS:
        raise BadBody(
            f"A request holds at most {MAX_EVENTS:,} events; this one holds more.", code="too_many_events"
        )
    decoded.total = len(raws)
    broken = 0
    scratch = bytearray()
    for index, raw in enumerate(raws):
        sanitized = marked and _MARK in bytes(raw)
        if sanitized:
            raw = bytes(raw).replace(_MARK, rb"\ufffd")
        event = _decode_fast(raw)
        if event is None:
            try:
                event, unknown = _decode_slowly(bytes(raw))
            except Rejected as error:
                broken += error.code == "not_json"
                decoded.rejected.append(error.result(index))
                continue
            decoded.unknown_fields += unknown
        yield Arrival(index, event, sanitized or has_repeated_keys(bytes(raw), event, scratch))
    if broken and broken == len(raws):
        raise BadBody("The body is not JSON.")


def _decode_fast(raw: bytes | msgspec.Raw) -> Event | None:
    """Return the event, or None where it needs a closer look."""
    if len(raw) >= _SMALL and not _has_few_keys(raw):
        return None
    try:
        return cast(Event, _strict.decode(raw))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _has_few_keys(raw: bytes | msgspec.Raw) -> bool:
    return len(raw) <= MAX_EVENT_BYTES and bytes(raw).count(b":") <= MAX_KEYS


def _mark(match: re.Match[bytes]) -> bytes:
    token = match[0]
    return _MARK if len(token) == 6 and _UNWANTED.match(token) else token


def _split(body: bytes) -> Sequence[bytes | msgspec.Raw]:
    """Return the events' bytes, not yet looked into."""
    if not body.startswith((b"[", b"{")):
        if b"\n{" in body:  # the first line alone is broken
            return _split_lines(body)
        raise BadBody("The body is not a JSON array or object, nor one event a line.")
    if body.count(b",") > _MANY_VALUES:
        return _split_by_hand(body) or _split_lines(body)
    try:
        if body.startswith(b"["):
            return _raw_list.decode(body)
        events = _envelope.decode(body).events
    except msgspec.ValidationError:
        raise BadBody("The body's events are not an array.", code="not_events") from None
    except (msgspec.DecodeError, RecursionError) as error:
        parts: Sequence[bytes] = ()
        if isinstance(error, RecursionError) or _NOT_FINITE.search(body):
            parts = _split_by_hand(body)
        return parts or _split_lines(body)
    return [body] if isinstance(events, msgspec.UnsetType) else events


def _split_lines(body: bytes) -> Sequence[bytes]:
    """Return the lines that hold something, up to one too many."""
    if body.startswith(b"["):
        raise BadBody("The body is not JSON.")
    lines = (match[0] for match in _LINE.finditer(body) if not match[0].isspace())
    return list(islice(lines, MAX_EVENTS + 1))


def _split_by_hand(body: bytes) -> Sequence[bytes]:
    """Split an array of events, or ``{"events": […]}``, up to one too many; empty where it has another form.

    It holds nothing but them, however many values there are, and looks into none: what no decoder takes (NaN,
    nesting that it can't walk) is left to be refused alone.
    """
    if body.startswith(b"{"):
        opening = _OPENING.match(body)
        if opening is None or not body.endswith(b"}"):
            return ()
        body = body[opening.end() : -1].rstrip()
    parts: list[bytes] = []
    depth, start = 0, 1
    for token in _TOKEN.finditer(body):
        mark = token[0]
        if mark in b"[{":
            depth += 1
        elif mark in b"]}":
            depth -= 1
        if (mark == b"," and depth == 1) or (mark == b"]" and depth == 0):
            parts.append(body[start : token.start()])
            start = token.end()
        if len(parts) > MAX_EVENTS:
            return parts
        if depth <= 0:
            break
    if depth or body[start:].strip():
        raise BadBody("The body is not JSON.")
    return parts


def _decode_slowly(raw: bytes) -> tuple[Event, int]:
    """Decode one event and count its unknown fields; raises Rejected with what is wrong."""
    if len(raw) > MAX_EVENT_BYTES:
        raise Rejected(f"An event has at most {MAX_EVENT_BYTES // 1024} KiB.", code="too_large")
    data = _untyped(raw)
    if not isinstance(data, dict):
        raise Rejected("An event is a JSON object.", code="not_object")
    check_shape(data)
    kind = data.get("type")
    if kind is None:
        raise Rejected("An event names its type.", code="missing_field", field="type")
    if kind not in TYPES:
        raise Rejected(f"This server takes {', '.join(TYPES)}.", code="unknown_type", field="type")
    try:
        event = _lenient.decode(raw)
    except msgspec.ValidationError as error:
        raise _explain(str(error)) from None
    except msgspec.DecodeError:
        raise Rejected("The event is not JSON.", code="not_json") from None
    return event, unknown_fields(type(event), data)


def _untyped(raw: bytes) -> Any:
    try:
        return _anything.decode(raw)
    except RecursionError:
        raise _too_deep() from None
    except msgspec.ValidationError:
        pass  # a number too large for a machine word: it is text here, and the typed decoder's to judge
    except msgspec.DecodeError:
        raise Rejected("The event is not JSON.", code="not_json") from None
    try:
        return json.loads(raw, parse_int=str, parse_float=str)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise Rejected("The event is not JSON.", code="not_json") from None


def check_shape(data: Any, field: str = "") -> None:
    """Raise Rejected where decoded JSON is nested deeper than 32 or has more than 1,000 keys."""
    keys = 0
    level = [data]
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                keys += len(value)
                inner.extend(item for item in value.values() if isinstance(item, dict | list))
            elif isinstance(value, list):
                inner.extend(item for item in value if isinstance(item, dict | list))
        if keys > MAX_KEYS:
            raise Rejected(f"An event has at most {MAX_KEYS:,} keys.", code="too_many_keys", field=field)
        level = inner
    raise _too_deep(field)


def _too_deep(field: str = "") -> Rejected:
    return Rejected(f"An event is nested at most {MAX_DEPTH} deep.", code="too_deep", field=field)


def _explain(text: str) -> Rejected:
    match = _PLACE.match(text)
    message, place = (match[1], match[2] or "") if match else (text, "")
    if missing := _MISSING.search(message):
        place = f"{place}.{missing[1]}".lstrip(".")
        return Rejected("This field is missing.", code="missing_field", field=place)
    code = "out_of_range" if _RANGE.search(message) else "invalid"
    return Rejected(f"{message.replace('`', '')}.", code=code, field=place)
