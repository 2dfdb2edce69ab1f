"""Secrets that a sender did not hide: they are gone before a row is made of its event."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from guardops.gate.events import Prepared, prepare
from guardops.tenants.keys import KeyHolder
from runs.ingest.rows import Receipt
from tests.guard.secrets import SECRETS, Seeded
from tests.runs.ingest.wire import encode, make_event

HOLDER = KeyHolder(key_id=1, organisation_id=1, tenants={"acme": 1}, scopes=frozenset())
AT = datetime(2026, 3, 14, 15, tzinfo=UTC)


def prepared(*events: dict[str, Any]) -> Prepared:
    found = prepare(encode(*events), HOLDER, Receipt(AT))
    assert found.rejected == []
    return found


def seeded_event(seeded: Seeded) -> dict[str, Any]:
    return make_event(
        last_steps=[{"step": 1, "tool": "t", "args": seeded.text, "error_code": seeded.text[:64]}],
        ledger=[{"fingerprint": "f", "tool": "t", "first_error": seeded.text[:64], "last_error": "x"}],
        attributes={"note": seeded.text[:256]},
        halt_detail={"error": seeded.text, **seeded.field},
        limits={"theirs": seeded.text},
    )


@pytest.mark.parametrize("seeded", SECRETS, ids=lambda seeded: seeded.kind)
def test_secret_in_a_run_reaches_no_row(seeded: Seeded) -> None:
    [row] = prepared(seeded_event(seeded)).rows
    assert all(part.encode() not in row.body for part in seeded.parts)
    assert row.sanitized


def test_run_without_a_secret_is_not_flagged() -> None:
    [row] = prepared(make_event()).rows
    assert not row.sanitized


def test_resend_of_a_secret_has_the_digest_of_the_first() -> None:
    event = seeded_event(SECRETS[0])
    first, again = prepared(event, event).rows
    assert first.digest == again.digest
