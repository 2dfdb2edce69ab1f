from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from uuid import UUID

import pytest
from django.test import Client

from guardops.guard import cases
from guardops.guard.policy import Policy
from guardops.guard.session import Guard
from tests.factories import make_run_id
from tests.runs.pages.conftest import Cast

Add = Callable[..., UUID]
Ingest = Callable[..., None]


def test_file_of_a_stopped_run_is_taken_by_the_runner(
    viewer: Client, ingest: Ingest, now: datetime, tmp_path: Path
) -> None:
    run = Guard(Policy(), jitter=lambda: 0.0).run(
        job_type="research", run_id=make_run_id(now), started_at=now, clock=lambda: 0.0
    )
    while (checked := run.check("search", {"q": "x"})).ticket is not None:
        run.observe(checked.ticket, result="the same", progressed=False)
    event = run.end()
    ingest(event)
    response = viewer.get(f"/runs/{event.run_id}/case.json")
    assert response["Content-Type"] == "application/json"
    assert response["Content-Disposition"] == f'attachment; filename="case-research-{event.run_id}.json"'
    path = tmp_path / "case.json"
    path.write_bytes(response.content)
    (case,) = cases.load(path)
    assert "partial" not in case, case["partial_why"]
    assert case["expect"] == {"verdict": "repeated_call", "at_step": 4, "phase": "pre"}
    assert cases.main([str(path)]) == 0


def test_run_without_steps_is_a_partial_case(viewer: Client, add: Add) -> None:
    case = viewer.get(f"/runs/{add(tool_calls=5)}/case.json").json()
    assert case["partial"] is True
    assert case["partial_why"] == ["Of 5 calls 0 were sent as steps."]


@pytest.mark.parametrize("detail", [{"last_steps": "x", "limits": [1]}, {"limits": {"max_steps": None}}])
def test_what_this_version_cannot_read_is_no_error(
    viewer: Client, add: Add, detail: dict[str, object]
) -> None:
    assert viewer.get(f"/runs/{add(detail=detail)}/case.json").json()["partial"] is True


def test_run_of_others_has_no_case(cast: Cast, viewer: Client, add: Add) -> None:
    for tenant in (cast.sibling, cast.foreign):
        assert viewer.get(f"/runs/{add(tenant_id=tenant.pk)}/case.json").status_code == 404
