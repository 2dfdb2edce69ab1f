"""The wire's types once more, forbidding unknown fields: what tells the common event from one to look at."""

from __future__ import annotations

import functools
import operator
from types import UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec


@functools.cache
def strict(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return a subclass of ``struct`` that refuses unknown fields, in itself and in every struct it holds."""
    hints = get_type_hints(struct, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for info in msgspec.structs.fields(struct):
        hint = _strict_type(hints[info.name])
        if info.default is not msgspec.NODEFAULT:
            fields.append((info.name, hint, info.default))
        elif info.default_factory is not msgspec.NODEFAULT:
            fields.append((info.name, hint, msgspec.field(default_factory=info.default_factory)))
        else:
            fields.append((info.name, hint))
    return msgspec.defstruct(
        f"Strict{struct.__name__}",
        fields,
        bases=(struct,),
        module=__name__,
        kw_only=True,
        omit_defaults=True,
        forbid_unknown_fields=True,
        gc=False,  # they hold no cycle, and a request makes many
    )


def unknown_fields(struct: type[msgspec.Struct], data: Any) -> int:
    """Return how many keys of decoded JSON the struct, or one that it holds, has no field for."""
    if not isinstance(data, dict):
        return 0
    hints = _nested(struct)
    count = 0
    for key, value in data.items():
        if key not in hints:
            count += key != struct.__struct_config__.tag_field
        elif (nested := hints[key]) is not None:
            values = value if isinstance(value, list) else [value]
            count += sum(unknown_fields(nested, item) for item in values)
    return count


@functools.cache
def _nested(struct: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct] | None]:
    return {name: _struct_in(hint) for name, hint in get_type_hints(struct, include_extras=True).items()}


def _struct_in(hint: Any) -> type[msgspec.Struct] | None:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint
    return next((found for part in get_args(hint) if (found := _struct_in(part))), None)


def _strict_type(hint: Any) -> Any:
    if _is_struct(hint):
        return strict(hint)
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_strict_type(parts[0]), *parts[1:])]
    if origin is UnionType:
        return functools.reduce(operator.or_, map(_strict_type, parts))
    if origin in (list, dict, tuple):
        return origin[tuple(map(_strict_type, parts))]
    return hint


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)
