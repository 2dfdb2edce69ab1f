"""The gate's OpenAPI 3.1 document, made from the very types that decode and encode. Pure."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import msgspec

from guardops.guard.bundle import Bundle
from guardops.guard.decisions import CheckpointReply, Consume, Grant
from guardops.guard.events import MAX_EVENTS
from guardops.guard.replies import BundlesAsked, BundlesReply, EventsReply
from guardops.guard.wire import Event

from .bodies import MEDIA_TYPES
from .openapi_bundles import example, get_bundle, post_bundles
from .openapi_checkpoints import get_checkpoint, post_consume
from .openapi_parts import REF, answer, parameter, problems, read
from .problems import KINDS, EventsProblem

VERSION = "1"
VECTORS = Path(__file__).with_name("vectors")
_GZIP = parameter(
    "Content-Encoding",
    "header",
    "The body may be gzipped; it has at most 8 MiB inflated.",
    {"type": "string", "enum": ["gzip", "identity"]},
)
_BACKFILL = parameter(
    "GuardOps-Backfill",
    "header",
    "With 1 and the scope events:backfill, events of the last 400 days keep their time.",
    {"type": "string", "enum": ["1"]},
)
_OF_OTHERS = frozenset(
    {
        *("not_found", "method_not_allowed"),
        *("unknown_checkpoint", "already_consumed", "wrong_artifact", "not_delivered", "decision_expired"),
    }
)
"""Codes that no post of events is answered with."""


@functools.cache
def document() -> dict[str, Any]:
    """Return the document as plain data."""
    replies = [
        EventsReply,
        EventsProblem,
        Bundle,
        BundlesAsked,
        BundlesReply,
        CheckpointReply,
        Consume,
        Grant,
    ]
    types = [Event, *replies]
    (event, *_), schemas = msgspec.json.schema_components(types, ref_template=REF)
    bundle = {"$ref": REF.format(name="Bundle")}
    schemas["Bundle"]["example"] = example()
    schemas["BundlesReply"]["properties"]["bundles"]["additionalProperties"] = bundle
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
        "paths": _paths(),
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


def _paths() -> dict[str, Any]:
    return {
        "/api/v1/events": {"post": _post_events()},
        "/api/v1/bundle": {"get": get_bundle()},
        "/api/v1/bundles": {"post": post_bundles()},
        "/api/v1/checkpoints/{checkpoint_id}": {"get": get_checkpoint()},
        "/api/v1/checkpoints/{checkpoint_id}/consume": {"post": post_consume()},
        "/api/v1/openapi.json": {"get": read("This document.", "application/json", {"type": "object"})},
        "/api/v1/docs": {"get": read("This document as a page.", "text/html", {"type": "string"})},
        "/livez": {"get": read("Whether the process is alive.", "text/plain", {"type": "string"})},
        "/readyz": {
            "get": read(
                "Whether it can take events.",
                "text/plain",
                {"type": "string"},
                ["unavailable", "overloaded"],
            )
        },
    }


@functools.cache
def vectors() -> dict[str, dict[str, Any]]:
    """Return an example of each type of event, with all of its fields but one of the two ids of a run."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(VECTORS.glob("*.json"))}


def _post_events() -> dict[str, Any]:
    event = {"$ref": REF.format(name="Event")}
    events = {"type": "array", "items": event, "maxItems": MAX_EVENTS}
    wrapped = {"type": "object", "properties": {"events": events}, "required": ["events"]}
    one_a_line = {"type": "string", "description": "One event a line."}
    examples = {kind: {"summary": f"One {kind}.", "value": [vector]} for kind, vector in vectors().items()}
    content: dict[str, Any] = {
        MEDIA_TYPES[0]: {"schema": {"oneOf": [events, wrapped, event]}, "examples": examples}
    }
    content |= {media_type: {"schema": one_a_line} for media_type in MEDIA_TYPES[1:]}
    codes = [code for code in KINDS if code not in _OF_OTHERS]
    return {
        "operationId": "postEvents",
        "summary": "Send what guards saw: runs, work that was refused, and what people have to decide.",
        "description": (
            "Answers once what it accepts is stored. Needs the scope events:write; with the scope checkpoints"
            " alone a key may send checkpoint.opened and nothing else. An event sent again is a"
            " duplicate and changes nothing. `results` names the events that were not plainly accepted."
        ),
        "parameters": [_GZIP, _BACKFILL],
        "requestBody": {"required": True, "content": content},
        "responses": {"200": answer("Stored.", "application/json", "EventsReply"), **problems(codes)},
    }
