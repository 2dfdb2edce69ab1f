"""/metrics of the gate, and the id under which a request is found in the log."""

from __future__ import annotations

from typing import Any

import pytest
from litestar.testing import TestClient
from prometheus_client.parser import text_string_to_metric_families
from structlog.contextvars import get_contextvars

from guardops.gate import events
from guardops.tenants.models import Tenant
from runs.health import metrics, vitals

from .conftest import now_event

Gate = TestClient[Any]
TOKEN = "a-token-of-the-scraper"


@pytest.fixture(autouse=True)
def scraped(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.METRICS_TOKEN = TOKEN
    metrics._pages.clear()
    monkeypatch.setattr(vitals, "read_queue", lambda: 0)


def read(gate: Gate) -> dict[tuple[str, ...], float]:
    page = gate.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert page.status_code == 200, page.text
    families = text_string_to_metric_families(page.text)
    return {(it.name, *it.labels.values()): it.value for one in families for it in one.samples}


def test_gate_counts_events_by_what_became_of_them(gate: Gate, key: dict[str, str]) -> None:
    before, event = read(gate), now_event()
    for body in ([event, now_event()], [event, {"type": "nonsense"}], [{"type": "nonsense"}]):
        gate.post("/api/v1/events", json=body, headers=key)
    after = read(gate)
    counted = {
        name: after["guardops_ingest_events_total", name] - before["guardops_ingest_events_total", name]
        for name in ("accepted", "duplicate", "refused")
    }

    assert counted == {"accepted": 2, "duplicate": 1, "refused": 2}
    assert (after["guardops_gate_waits",], after["guardops_database_up",]) == (0, 1)


def test_metrics_without_the_token_are_nothing(gate: Gate) -> None:
    assert gate.get("/metrics").status_code == 404


def test_what_a_request_writes_carries_its_id(
    gate: Gate, key: dict[str, str], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    real = events.record_runs

    def record(*args: Any, **named: Any) -> Any:
        seen.append(get_contextvars()["request_id"])
        return real(*args, **named)

    monkeypatch.setattr(events, "record_runs", record)
    answers = [gate.post("/api/v1/events", json=[now_event()], headers=key) for _ in range(2)]

    assert seen == [answer.headers["guardops-request-id"] for answer in answers]
    assert len(set(seen)) == 2
