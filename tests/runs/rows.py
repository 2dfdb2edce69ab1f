"""Rows of the run table, written as ingest writes them: a mark that is the transaction's, and a span."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from guardops.guard.ids import uuid7
from guardops.guard.reasons import family_of
from runs.partitions import make_partitions, unix_ms
from runs.rollup.fold import FoldReport, fold_once

_DEFAULTS: dict[str, Any] = {
    "tenant_id": 1,
    "body_digest": b"0123456789abcdef",
    "root_task_id": "",
    "parent_run_id": None,
    "resumed_from": None,
    "attempt": 1,
    "job_type": "research",
    "agent": "",
    "release": "r1",
    "outcome": "completed",
    "answer": "full",
    "halt_reason": "",
    "mode": "enforce",
    "would_halt": "",
    "steps": 5,
    "turns": 5,
    "tool_calls": 5,
    "refusals": 0,
    "retries": 0,
    "step_unit": "tool_call",
    "step_cap": 40,
    "duration_ms": 30_000,
    "tokens_input": 1_000,
    "tokens_output": 100,
    "tokens_cached": 0,
    "cost": Decimal("0.01"),
    "cost_basis": "estimate",
    "eligible": True,
    "looped": False,
    "provider_failure": False,
    "blocked": 0,
    "blocked_by_provider": 0,
    "duplicates": 0,
    "peak_repeats": 0,
    "peak_stall": 0,
    "peak_error_streak": 0,
    "peak_domain_calls": 0,
    "peak_listing_pages": 0,
    "peak_refusals": 0,
    "policy_revision": 0,
    "policy_version": 0,
    "guard_version": "",
    "clock_suspect": False,
    "sanitized": False,
    "detail": {},
}


def make_row(at: datetime, **columns: Any) -> dict[str, Any]:
    """Return one run's columns; what is not given is a plain completed task."""
    row = {**_DEFAULTS, **columns}
    row.setdefault("run_id", uuid7(unix_ms(at), random.getrandbits(74)))
    row.setdefault("at", at)
    row.setdefault("ended_at", at)
    row.setdefault("received_at", at)
    row.setdefault("started_at", at - timedelta(milliseconds=row["duration_ms"]))
    row.setdefault("family", family_of(row["halt_reason"]).value if row["halt_reason"] else "")
    row.setdefault("completes", row["outcome"] == "completed" and row["parent_run_id"] is None)
    return row


def insert_rows(rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows in one transaction, or in the one that is open, and the span that says which they are."""
    rows = list(rows)
    make_partitions({row["at"].date() for row in rows})
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text::bigint")
        mark = cursor.fetchone()[0]
        columns = list(rows[0])
        cursor.executemany(
            f"INSERT INTO run ({', '.join(columns)}, ingest_mark) VALUES ({'%s, ' * len(columns)}%s)",
            [
                [json.dumps(row[name]) if name == "detail" else row[name] for name in columns] + [mark]
                for row in rows
            ],
        )
        for tenant_id in sorted({row["tenant_id"] for row in rows}):
            ids = [row["run_id"] for row in rows if row["tenant_id"] == tenant_id]
            cursor.execute(
                """\
INSERT INTO ingest_span (mark, tenant_id, min_run_id, max_run_id, runs) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (mark, tenant_id) DO UPDATE SET runs = ingest_span.runs + excluded.runs,
    min_run_id = least(ingest_span.min_run_id, excluded.min_run_id),
    max_run_id = greatest(ingest_span.max_run_id, excluded.max_run_id)""",
                [mark, tenant_id, min(ids), max(ids), len(ids)],
            )


def fold(now: datetime, **options: Any) -> FoldReport:
    """Fold once, as soon as no transaction of another session in the cluster holds back all there is."""
    give_up = time.monotonic() + 60
    while True:
        report = fold_once(now, **options)
        if report.rows or report.busy or not report.pending or time.monotonic() > give_up:
            return report
        time.sleep(0.01)


_ENDS = (
    ("completed", "full", ""),
    ("completed", "full", ""),
    ("completed", "none", ""),
    ("completed_forced", "forced", "no_progress"),
    ("completed_forced", "forced", "source_cap"),
    ("unresolved", "none", "repeated_call"),
    ("halted", "none", "step_budget"),
    ("halted", "none", "cycle_period_2"),
    ("halted", "none", "made_up_code"),
    ("escalated", "none", "uncertain_write"),
    ("failed", "none", ""),
    ("cancelled", "none", "operator_stop"),
)


def random_rows(rng: random.Random, count: int, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """Return runs of every kind that ingest stores, placed at random in [start, end)."""
    return [_random_row(rng, start + (end - start) * rng.random()) for _ in range(count)]


def _random_row(rng: random.Random, at: datetime) -> dict[str, Any]:
    outcome, answer, reason = rng.choice(_ENDS)
    child = rng.random() < 0.15
    provider_failure = outcome == "failed" and rng.random() < 0.5
    blocked = rng.choice((0, 0, 0, 1, 3))
    tools = rng.sample(("search", "fetch", "mail.send", "db.query"), k=rng.randint(0, 3))
    cap = rng.choice((None, 15, 40))
    return make_row(
        at,
        run_id=uuid7(unix_ms(at), rng.getrandbits(74)),
        tenant_id=rng.choice((1, 1, 2, 3)),
        job_type=rng.choice(("research", "coding", "support")),
        release=rng.choice(("", "r1", "r2")),
        outcome=outcome,
        answer=answer,
        halt_reason=reason,
        attempt=rng.choice((1, 1, 1, 2, 3)),
        parent_run_id=uuid7(unix_ms(at), rng.getrandbits(74)) if child else None,
        completes=outcome == "completed" and not child and rng.random() < 0.9,
        eligible=not child and rng.random() < 0.9,
        looped=not provider_failure and (blocked > 0 or reason in ("no_progress", "cycle_period_2")),
        provider_failure=provider_failure,
        blocked=blocked,
        duplicates=rng.choice((0, 0, 1, 4)),
        steps=rng.randint(1, cap or 60),
        step_cap=cap,
        step_unit=rng.choice(("tool_call", "tool_call", "turn")),
        duration_ms=rng.randint(0, 600_000),
        tokens_input=rng.randint(0, 50_000),
        tokens_output=rng.randint(0, 5_000),
        cost=Decimal(rng.randint(0, 3_000_000)).scaleb(-6),
        clock_suspect=rng.random() < 0.05,
        detail={
            "sources": [{"kind": "tool", "name": name, "calls": rng.randint(1, 9)} for name in tools]
            + [{"kind": "domain", "name": f"site{rng.randint(1, 5)}.example", "calls": 2}]
        },
    )
