"""The gate's OpenAPI 3.1 document, made from the very types that decode and encode. Pure."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import msgspec

from guardops.guard.events import MAX_EVENTS, Event
from guardops.guard.replies import EventsReply

from .bodies import MEDIA_TYPES
from .problems import KINDS, EventsProblem
from .problems import MEDIA_TYPE as PROBLEM

VERSION = "1"
VECTORS = Path(__file__).with_name("vectors")
_REF = "#/components/schemas/{name}"
_GZIP = {
    "name": "Content-Encoding",
    "in": "header",
    "description": "The body may be gzipped; it has at most 8 MiB inflated.",
    "schema": {"type": "string", "enum": ["gzip", "identity"]},
}
_BACKFILL = {
    "name": "GuardOps-Backfill",
    "in": "header",
    "description": "With 1 and the scope events:backfill, events of the last 400 days keep their time.",
    "schema": {"type": "string", "enum": ["1"]},
}


@functools.cache
def document() -> dict[str, Any]:
    """Return the document as plain data."""
    (event, *_), schemas = msgspec.json.schema_components(
        [Event, EventsReply, EventsProblem], ref_template=_REF
    )
    schemas["Event"] = {"title": "Event", "description": "Any of the types of events."} | event
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GuardOps gate",
            "version": VERSION,
            "description": "What guards of LLM agents and the dashboard say to each other.",
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "paths": {
            "/api/v1/events": {"post": _post_events()},
            "/api/v1/openapi.json": {"get": _read("This document.", "application/json", {"type": "object"})},
            "/api/v1/docs": {"get": _read("This document as a page.", "text/html", {"type": "string"})},
            "/livez": {"get": _read("Whether the process is alive.", "text/plain", {"type": "string"})},
            "/readyz": {
                "get": _read(
                    "Whether it can take events.",
                    "text/plain",
                    {"type": "string"},
                    ["unavailable", "overloaded"],
                )
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "go_<prefix>_<secret>",
                    "description": "An API key; what it may do is in its scopes.",
                }
            },
        },
    }


@functools.cache
def vectors() -> dict[str, dict[str, Any]]:
    """Return an example of each type of event, with all of its fields but one of the two ids of a run."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(VECTORS.glob("*.json"))}


def _post_events() -> dict[str, Any]:
    event = {"$ref": _REF.format(name="Event")}
    events = {"type": "array", "items": event, "maxItems": MAX_EVENTS}
    wrapped = {"type": "object", "properties": {"events": events}, "required": ["events"]}
    one_a_line = {"type": "string", "description": "One event a line."}
    examples = {kind: {"summary": f"One {kind}.", "value": [vector]} for kind, vector in vectors().items()}
    content: dict[str, Any] = {
        MEDIA_TYPES[0]: {"schema": {"oneOf": [events, wrapped, event]}, "examples": examples}
    }
    content |= {media_type: {"schema": one_a_line} for media_type in MEDIA_TYPES[1:]}
    codes = [code for code in KINDS if code not in {"not_found", "method_not_allowed"}]
    return {
        "operationId": "postEvents",
        "summary": "Send what guards saw: runs that started, go on or ended, and work that was refused.",
        "description": (
            "Answers once what it accepts is stored. Needs the scope events:write. An event sent again is a"
            " duplicate and changes nothing. `results` names the events that were not plainly accepted."
        ),
        "parameters": [_GZIP, _BACKFILL],
        "requestBody": {"required": True, "content": content},
        "responses": {"200": _answer("Stored.", "application/json", "EventsReply"), **_problems(codes)},
    }


def _read(
    summary: str, media_type: str, schema: dict[str, Any], codes: list[str] | None = None
) -> dict[str, Any]:
    responses: dict[str, Any] = {"200": {"description": summary, "content": {media_type: {"schema": schema}}}}
    return {"summary": summary, "security": [], "responses": responses | _problems(codes or [])}


def _problems(codes: list[str]) -> dict[str, Any]:
    """Return the answers by status; each names the codes it may have."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(KINDS[code].status, []).append(code)
    answers = {}
    for status, found in sorted(by_status.items()):
        listed = ", ".join(f"{code} ({KINDS[code].title.lower()})" for code in found)
        answers[str(status)] = answer = _answer(f"One of: {listed}.", PROBLEM, "EventsProblem")
        if any(KINDS[code].retry_after for code in found):
            answer["headers"] = {
                "Retry-After": {
                    "schema": {"type": "integer"},
                    "description": "Seconds to wait before it is sent again.",
                }
            }
    return answers


def _answer(description: str, media_type: str, name: str) -> dict[str, Any]:
    return {"description": description, "content": {media_type: {"schema": {"$ref": _REF.format(name=name)}}}}
