"""Events of the wire whose every text is a payload, found by walking the types: new fields too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import inspect

_LONGEST = 256


def hostile_event(struct: type[msgspec.Struct], payloads: Iterator[str], **given: Any) -> dict[str, Any]:
    """Return the event as plain data: payloads cut to what a field takes, ``given`` fields as they are.

    Fields that are no text keep their defaults, but for lists and objects, which hold one of each.
    """
    event = _fill_struct(inspect.type_info(struct), payloads)
    return event | {name: value for name, value in given.items() if value is not None}


def text_fields(struct: type[msgspec.Struct]) -> set[str]:
    """Return the paths of the texts that ``hostile_event`` fills."""
    return set(_paths(hostile_event(struct, iter(lambda: "x", None))))


def _paths(value: Any, path: str = "") -> Iterator[str]:
    match value:
        case dict():
            for name, inner in value.items():
                yield from _paths(inner, f"{path}.{name}" if path else name)
        case list():
            for inner in value:
                yield from _paths(inner, f"{path}[]")
        case str():
            yield path


def _fill_struct(kind: Any, payloads: Iterator[str]) -> dict[str, Any]:
    filled = {
        field.encode_name: _least(field.type) if value is None and field.required else value
        for field in kind.fields
        for value in [_fill(field.type, payloads)]
    }
    tag = {kind.tag_field: kind.tag} if kind.tag_field else {}
    return {name: value for name, value in filled.items() if value is not None} | tag


def _fill(kind: Any, payloads: Iterator[str]) -> Any:
    match kind:
        case inspect.StrType():
            return next(payloads)[: kind.max_length or _LONGEST]
        case inspect.StructType():
            return _fill_struct(kind, payloads)
        case inspect.ListType():
            inner = _fill(kind.item_type, payloads)
            return None if inner is None else [inner]
        case inspect.DictType():
            key = _fill(kind.key_type, payloads)
            value = _fill(kind.value_type, payloads)
            return None if key is None or value is None else {key: value}
        case inspect.AnyType():
            return {next(payloads): [next(payloads), {next(payloads): next(payloads)}]}
        case inspect.UnionType():
            found = (_fill(inner, payloads) for inner in kind.types)
            return next((value for value in found if value is not None), None)
    return None


def _least(kind: Any) -> Any:
    """Return a value for a field that is no text and must be there; times are the caller's."""
    match kind:
        case inspect.EnumType():
            return next(iter(kind.cls)).value
        case inspect.IntType():
            return max(kind.ge or 0, 1)
        case inspect.UUIDType():
            return str(uuid4())
    return None
