"""What webhooks are sent of a subject, by its kind. Each app's part registers what it has when it is ready.

Incidents are told in many ways, by `runs.notify.incidents`; what is registered here goes out as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from uuid import UUID

BodyOf: TypeAlias = Callable[[UUID], bytes | None]
"""Returns the JSON document of a subject by its id, at the moment of sending; None for what is no longer to
be told, such as a decision that was undone."""

_bodies: dict[str, BodyOf] = {}


def register(kind: str, body_of: BodyOf) -> None:
    """Add a kind (`runs.choices.SubjectKind`); raises ValueError for one that is there already."""
    if kind in _bodies:
        raise ValueError(f"Subjects of the kind {kind} are registered already.")
    _bodies[kind] = body_of


def body_of(kind: str, subject: UUID) -> bytes | None:
    """Return what a webhook is sent of the subject, None for nothing."""
    return _bodies[kind](subject) if kind in _bodies else None
