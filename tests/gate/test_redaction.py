"""Secrets that a sender did not hide: they are gone before a row is made of its event."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from guardops.gate.events import Prepared, prepare
from guardops.tenants.keys import KeyHolder
from runs.ingest.checkpoints import Opened
from runs.ingest.rows import Receipt, Row
from tests.guard.secrets import SECRETS, Seeded
from tests.runs.ingest.wire import encode, make_event, make_opened

HOLDER = KeyHolder(key_id=1, organisation_id=1, tenants={"acme": 1}, scopes=frozenset({"events:write"}))
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
    assert isinstance(row, Row)
    assert all(part.encode() not in row.body for part in seeded.parts)
    assert row.sanitized


def seeded_checkpoint(seeded: Seeded) -> dict[str, Any]:
    call = {"tool": "t", "args_hash": "ab", "args": seeded.text}
    return make_opened(
        question=seeded.text,
        unresolved=[seeded.text[:256]],
        artifact={"digest": "sha256:5a", "text": f"page: {seeded.text}", "source": seeded.text[:256]},
        last_steps=[{"step": 1, "tool": "t", "args": seeded.text, "error_code": seeded.text[:64]}],
        ledger=[{"fingerprint": "f", "tool": "t", "first_error": seeded.text[:64], "last_error": "x"}],
        sources=[{"kind": "tool", "name": "t", "evidence_version": f"v {seeded.text}"[:256]}],
        pending=[call],
        refused=call,
        limits={"theirs": seeded.text, **seeded.field},
    )


@pytest.mark.parametrize("seeded", SECRETS, ids=lambda seeded: seeded.kind)
def test_secret_in_a_checkpoint_reaches_no_row(seeded: Seeded) -> None:
    [row] = prepared(seeded_checkpoint(seeded)).rows
    assert isinstance(row, Opened)
    stored = msgspec.json.encode(row.columns).decode()
    assert all(part not in stored for part in seeded.parts)
    assert row.sanitized


def test_digests_of_a_checkpoint_stay_as_they_were() -> None:
    digest = "sha256:" + "7d1b" * 16
    call = {"tool": "t", "args_hash": "7d1b" * 16}
    [row] = prepared(
        make_opened(
            artifact={"digest": digest},
            refused=call,
            sources=[{"kind": "tool", "name": "t", "evidence_version": digest}],
        )
    ).rows
    assert isinstance(row, Opened)
    packet = row.columns.detail
    assert packet.refused is not None
    assert [packet.artifact.digest, packet.sources[0].evidence_version] == [digest, digest]
    assert packet.refused.args_hash == "7d1b" * 16
    assert not row.sanitized


def test_run_without_a_secret_is_not_flagged() -> None:
    [row] = prepared(make_event()).rows
    assert not row.sanitized


def test_resend_of_a_secret_has_the_digest_of_the_first() -> None:
    event = seeded_event(SECRETS[0])
    first, again = prepared(event, event).rows
    assert isinstance(first, Row)
    assert isinstance(again, Row)
    assert first.digest == again.digest
