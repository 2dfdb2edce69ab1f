from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db.models import ForeignKey

PLUMBING = frozenset({"pgh_obj", "pgh_context", "pgh_created_at", "pgh_id", "pgh_label", "pgh_context_id"})
"""The fields of an audit row that say how it came about, not what was changed."""


class Names:
    """The names of all things that some audit rows refer to, read with one query a table."""

    def __init__(self, rows: Iterable[Any]) -> None:
        wanted: dict[Any, set[Any]] = defaultdict(set)
        for row in rows:
            for key in _references(row):
                if (value := getattr(row, key.attname)) is not None:
                    wanted[key.related_model].add(value)
        self._found = {model: model._base_manager.in_bulk(sorted(ids)) for model, ids in wanted.items()}

    def of(self, row: Any, field: str) -> str:
        """Return the name of what ``field`` refers to, ``""`` where it refers to nothing."""
        key = row._meta.get_field(field)
        value = getattr(row, key.attname)
        if value is None:
            return ""
        found = self._found.get(key.related_model, {}).get(value)
        return f"no. {value}, since removed" if found is None else str(found)


def _references(row: Any) -> Iterable[Any]:
    return (
        field
        for field in row._meta.concrete_fields
        if isinstance(field, ForeignKey) and field.name not in PLUMBING
    )
