"""The database cluster that this installation lives in."""

from __future__ import annotations

from typing import Any


def read_system_identifier(cursor: Any) -> int:
    """Return the cluster's own number; 0 where this role may not call the function that knows it."""
    cursor.execute("SELECT has_function_privilege('pg_control_system()', 'execute')")
    if not cursor.fetchone()[0]:
        return 0
    cursor.execute("SELECT system_identifier FROM pg_control_system()")
    return int(cursor.fetchone()[0])
