"""Who holds fold back: an open writing transaction anywhere in the cluster keeps later ones uncounted."""

from __future__ import annotations

from django.db import connection


def oldest_transaction() -> str:
    """Name the oldest open writing transaction in words; empty where there is none."""
    with connection.cursor() as cursor:
        cursor.execute(
            """\
SELECT pid, datname, usename, state, extract(epoch FROM clock_timestamp() - xact_start)::bigint
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
ORDER BY age(backend_xid) DESC LIMIT 1"""
        )
        row = cursor.fetchone()
    if row is None:
        return ""
    pid, database, user, state, seconds = row
    return f"process {pid} of {user} in {database}, {state}, open for {seconds} s"
