"""Audit rows in words: who did what to which thing, and which fields it changed from what to what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import ForeignKey
from django.utils import timezone

from .kinds import Kind
from .names import PLUMBING, Names

NOTHING = "–"
_UNTOLD = PLUMBING | {"id", "created_at"}
_VERBS = {
    "insert": "added",
    "delete": "removed",
    "login": "signed in as",
    "password": "set a password for",
    "secret": "changed the address or a secret of",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A field's value before and after, as text; ``NOTHING`` where it had none."""

    field: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Row:
    """An audit row and the one before it of the same thing."""

    kind: Kind
    event: Any
    before: Any | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the trail. Names and values are text that people wrote."""

    at: datetime
    actor: str
    """Who did it; empty for a change that was made past GuardOps, straight in the database."""
    by_person: bool
    verb: str
    noun: str
    name: str
    changes: Sequence[Change]
    request_id: str
    kind: Kind
    label: str
    only_change: Change | None
    """The change that the sentence tells by itself."""


def entries(rows: Sequence[Row]) -> list[Entry]:
    """Put rows into words, with one query for each table that they refer to."""
    names = Names([event for row in rows for event in (row.event, row.before) if event is not None])
    return [_entry(row, names) for row in rows]


def _entry(row: Row, names: Names) -> Entry:
    event, kind = row.event, row.kind
    context = event.pgh_context or {}
    actor = context.get("actor") or {}
    changes = list(_changes(row, names))
    milestone = _milestone(row)
    lone = event.pgh_label == "update" and len(changes) == 1 and not milestone
    return Entry(
        at=event.pgh_created_at,
        actor=str(actor.get("name", "")),
        by_person=actor.get("kind") == "user",
        verb=milestone or _verb(event.pgh_label, changes),
        noun=kind.noun,
        name=kind.name(event, names),
        changes=changes,
        request_id=str(context.get("request_id", "")),
        kind=kind,
        label=event.pgh_label,
        only_change=changes[0] if lone else None,
    )


def _milestone(row: Row) -> str:
    """Return the verb for a field that was filled in, empty where none was."""
    if row.event.pgh_label != "update":
        return ""
    for name, verb in row.kind.milestones.items():
        if getattr(row.event, name) is not None and getattr(row.before, name, None) is None:
            return verb
    return ""


def _verb(label: str, changes: Sequence[Change]) -> str:
    if label in _VERBS:
        return _VERBS[label]
    if len(changes) == 1:
        return f"changed the {changes[0].field} of"
    return f"changed {len(changes)} fields of"


def _changes(row: Row, names: Names) -> Iterator[Change]:
    label = row.event.pgh_label
    old = {"update": row.before, "delete": row.event}.get(label)
    new = {"update": row.event, "insert": row.event}.get(label)
    for field in row.event._meta.concrete_fields:
        if field.name in _UNTOLD:
            continue
        before, after = _text(old, field, names), _text(new, field, names)
        if before != after and not (label == "insert" and after == "no"):
            yield Change(row.kind.fields.get(field.name, str(field.verbose_name)), before, after)


def _text(event: Any | None, field: Any, names: Names) -> str:
    if event is None:
        return NOTHING
    if isinstance(field, ForeignKey):
        return names.of(event, field.name) or NOTHING
    value = getattr(event, field.attname)
    match value:
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{timezone.localtime(value):%Y-%m-%d %H:%M:%S %Z}"
        case list() | tuple():
            return ", ".join(map(str, value)) or NOTHING
        case None | "":
            return NOTHING
        case _:
            return str(value)
