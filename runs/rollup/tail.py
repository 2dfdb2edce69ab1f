"""The tail: runs that are committed and not folded yet, counted by fold's own projection."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from . import projection

LONGEST = 50_000
"""Runs that a page adds by itself; behind a longer tail it shows how far fold has come instead."""

Cell = dict[str, Any]
"""One row of a projection, by column."""


class Tail:
    """The unfolded runs of some tenants (None: of all) placed in [start, end), read at most once a kind.

    It reads in the cursor's snapshot, which must be the one in which ``last`` was read.
    """

    def __init__(
        self, cursor: Any, last: int, tenant_ids: tuple[int, ...] | None, start: datetime, end: datetime
    ) -> None:
        self._cursor = cursor
        self._parameters = {"last": last, "tenant_ids": list(tenant_ids or ()), "start": start, "end": end}
        self._of_tenants = "true" if tenant_ids is None else "tenant_id = ANY(%(tenant_ids)s)"
        self.rows, first, final = self._span()
        self._parameters |= {"first": first, "final": final}

    @property
    def too_long(self) -> bool:
        return self.rows > LONGEST

    @cached_property
    def counts(self) -> list[Cell]:
        return self._read(projection.counts(self._where))

    @cached_property
    def steps(self) -> list[Cell]:
        return self._read(projection.values(f"{self._where} AND m.measure = 0"))

    @cached_property
    def sources(self) -> list[Cell]:
        return self._read(projection.sources(self._where))

    @property
    def _where(self) -> str:
        return (
            f"ingest_mark >= %(last)s AND {self._of_tenants} AND at >= %(start)s AND at < %(end)s"
            " AND run_id BETWEEN %(first)s AND %(final)s"
        )

    def _span(self) -> tuple[int, UUID | None, UUID | None]:
        """Return how many runs there are, placed anywhere, and between which ids."""
        self._cursor.execute(
            "SELECT coalesce(sum(runs), 0)::bigint, min(min_run_id::text)::uuid, max(max_run_id::text)::uuid"
            f" FROM ingest_span WHERE mark >= %(last)s AND {self._of_tenants}",
            self._parameters,
        )
        rows, first, final = self._cursor.fetchone()
        return rows, first, final

    def _read(self, query: str) -> list[Cell]:
        if not self.rows or self.too_long:
            return []
        self._cursor.execute(query, self._parameters)
        columns = [column.name for column in self._cursor.description]
        return [dict(zip(columns, row, strict=True)) for row in self._cursor.fetchall()]
