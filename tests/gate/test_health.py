from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError
from litestar.testing import TestClient

from guardops.gate import health

Gate = TestClient[Any]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_gate_in_order_says_so(gate: Gate, path: str, method: str) -> None:
    response = gate.request(method, path)
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-content-type-options"] == "nosniff"


def test_gate_without_its_database_is_alive_and_not_ready(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(health, "_ask_database", fail)
    response = gate.get("/readyz")
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert gate.get("/livez").status_code == 200


def test_gate_that_goes_down_is_not_ready(gate: Gate) -> None:
    gate.app.state.services.draining = True
    assert gate.get("/readyz").status_code == 503
