"""Pieces that the parts of the OpenAPI document share. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .problems import KINDS
from .problems import MEDIA_TYPE as PROBLEM
from .waiting import MAX_WAIT

REF = "#/components/schemas/{name}"
Piece = dict[str, Any]


def read(summary: str, media_type: str, schema: Piece, codes: Iterable[str] = ()) -> Piece:
    """Return an operation that needs no key and takes nothing."""
    responses: Piece = {"200": {"description": summary, "content": {media_type: {"schema": schema}}}}
    return {"summary": summary, "security": [], "responses": responses | problems(codes)}


def problems(codes: Iterable[str]) -> Piece:
    """Return the answers by status; each names the codes it may have."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(KINDS[code].status, []).append(code)
    answers = {}
    for status, found in sorted(by_status.items()):
        listed = ", ".join(f"{code} ({KINDS[code].title.lower()})" for code in found)
        answers[str(status)] = refusal = answer(f"One of: {listed}.", PROBLEM, "EventsProblem")
        if any(KINDS[code].retry_after for code in found):
            refusal["headers"] = {
                "Retry-After": header("Seconds to wait before it is sent again.", {"type": "integer"})
            }
    return answers


def answer(description: str, media_type: str, name: str) -> Piece:
    """Return an answer whose body is of the type ``name``."""
    return {"description": description, "content": {media_type: {"schema": {"$ref": REF.format(name=name)}}}}


def header(description: str, schema: Piece) -> Piece:
    return {"description": description, "schema": schema}


def wait() -> Piece:
    """Return the parameter of requests that may be held."""
    return parameter(
        "wait",
        "query",
        f"Seconds to wait for news, 0 to {MAX_WAIT:.0f}; the server adds up to a sixteenth.",
        {"type": "number", "minimum": 0, "maximum": MAX_WAIT, "default": 0},
        30,
    )


def parameter(name: str, where: str, description: str, schema: Piece, example: object = None) -> Piece:
    """Return a parameter in a ``header`` or the ``query``; nobody has to send it."""
    found = {"name": name, "in": where, "description": description, "schema": schema}
    return found if example is None else found | {"example": example}
