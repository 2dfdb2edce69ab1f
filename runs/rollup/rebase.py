"""Re-basing: gives a restored database marks of the cluster that it lives in now."""

from __future__ import annotations

from django.db import connection, transaction

from guardops.tenants.cluster import read_system_identifier

from .fold import LOCK_SPACE
from .state import State

_COUNTED, _UNCOUNTED = 1, 2
"""Marks below that of any transaction: what fold has counted, and what it has not."""


def rebase_marks() -> int:
    """Mark counted runs as counted and the others as new, and adopt this cluster; return how many are new.

    It rewrites every run and locks the run table against writers. Changes nothing where the roll-ups are this
    cluster's own.
    """
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [LOCK_SPACE])
        cursor.execute("LOCK TABLE run, ingest_span IN SHARE ROW EXCLUSIVE MODE")
        state, identifier = State.read(cursor), read_system_identifier(cursor)
        if state is None or state.system_identifier == identifier:
            return 0
        cursor.execute(
            "UPDATE run SET ingest_mark = CASE WHEN ingest_mark < %s THEN %s::bigint ELSE %s END",
            [state.last, _COUNTED, _UNCOUNTED],
        )
        cursor.execute("DELETE FROM ingest_span")
        cursor.execute(
            "INSERT INTO ingest_span (mark, tenant_id, min_run_id, max_run_id, runs)"
            " SELECT ingest_mark, tenant_id, min(run_id::text)::uuid, max(run_id::text)::uuid, count(*)"
            " FROM run WHERE ingest_mark = %s GROUP BY 1, 2 ORDER BY 1, 2",
            [_UNCOUNTED],
        )
        cursor.execute(
            "UPDATE fold_state SET last = %s, system_identifier = %s,"
            " watched_mark = pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
            [_UNCOUNTED, identifier],
        )
        cursor.execute("UPDATE loop_clock SET mark = %s, first_run = NULL, last_run = NULL", [_UNCOUNTED])
        cursor.execute("SELECT coalesce(sum(runs), 0)::bigint FROM ingest_span")
        return int(cursor.fetchone()[0])
