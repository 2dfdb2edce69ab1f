"""The gate's document, for programs and for people; the page loads nothing but its own style sheet."""

from __future__ import annotations

import functools
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from django.template.loader import render_to_string
from litestar import Response, route

from .health import READ
from .openapi import document, vectors
from .openapi_bundles import example
from .problems import KINDS

_STYLE = Path(__file__).with_name("docs.css")


class Field(NamedTuple):
    """A line of the page's table of a type."""

    name: str
    type: str
    required: bool
    default: str
    limits: str
    description: str


@route("/api/v1/openapi.json", http_method=READ, status_code=HTTPStatus.OK, sync_to_thread=False)
def openapi() -> Response[bytes]:
    return Response(msgspec.json.encode(document()), media_type="application/json")


@route("/api/v1/docs", http_method=READ, status_code=HTTPStatus.OK, sync_to_thread=False)
def docs() -> Response[str]:
    return Response(_page(), media_type="text/html")


@route("/api/v1/docs.css", http_method=READ, status_code=HTTPStatus.OK, sync_to_thread=False)
def stylesheet() -> Response[bytes]:
    return Response(_STYLE.read_bytes(), media_type="text/css")


@functools.cache
def _page() -> str:
    schemas = document()["components"]["schemas"]
    return render_to_string(
        "gate/docs.html",
        {
            "document": document(),
            "operations": [
                {"path": path, "method": method, **operation}
                for path, item in document()["paths"].items()
                for method, operation in item.items()
            ],
            "types": [
                {"name": name, "description": schema.get("description", ""), "fields": list(_fields(schema)),
                 "values": schema.get("enum")}
                for name, schema in schemas.items()
            ],
            "vectors": {kind: _indented(vector) for kind, vector in vectors().items()},
            "bundle": _indented(example()),
            "problems": [{"code": code, **kind._asdict()} for code, kind in KINDS.items()],
        },
    )  # fmt: skip


def _indented(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode()


def _fields(schema: dict[str, Any]) -> list[Field]:
    required = set(schema.get("required", ()))
    return [
        Field(
            name=name,
            type=_type(field),
            required=name in required,
            default=msgspec.json.encode(field["default"]).decode() if "default" in field else "",
            limits=_limits(field),
            description=field.get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if field.get("type") == "array":
        return f"array of {_type(field.get('items', {}))}"
    return " ".join(filter(None, [field.get("type", "anything"), field.get("format")]))


def _limits(field: dict[str, Any]) -> str:
    names = {
        "minimum": "≥",
        "maximum": "≤",
        "minLength": "length ≥",
        "maxLength": "length ≤",
        "maxItems": "items ≤",
        "maxProperties": "keys ≤",
    }
    parts = [f"{names[key]} {value:,}" for key, value in field.items() if key in names]
    parts += [limits for part in field.get("anyOf", ()) if (limits := _limits(part))]
    if "enum" in field:
        parts.append(" | ".join(map(str, field["enum"])))
    return ", ".join(parts)
