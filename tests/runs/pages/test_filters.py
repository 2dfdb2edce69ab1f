from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID, uuid4

import pytest
from django.test import Client

from guardops.tenants.choices import Role
from runs.choices import StopVerdict
from runs.models import Run
from runs.review.stops import review_stop
from tests.factories import make_member
from tests.runs.pages.conftest import Cast, listed

Add = Callable[..., UUID]

STOPPED = {"outcome": "halted", "halt_reason": "no_progress"}
USED = {"sources": [{"kind": "domain", "name": "a.example", "calls": 2}]}


@pytest.mark.parametrize(
    ("query", "matching", "other"),
    [
        ("job=coding", {"job_type": "coding"}, {"job_type": "coding2"}),
        ("release=r2%2Bp1", {"release": "r2+p1"}, {"release": "r2"}),
        ("outcome=halted", {"outcome": "halted"}, {"outcome": "escalated"}),
        ("outcome=halted&outcome=failed", {"outcome": "failed"}, {"outcome": "escalated"}),
        ("stopped=1", {"outcome": "completed_forced", "halt_reason": "source_cap"}, {"outcome": "halted"}),
        ("family=cycle", {**STOPPED, "halt_reason": "cycle_period_3"}, STOPPED),
        ("family=other", {**STOPPED, "halt_reason": "made_up"}, STOPPED),
        ("reason=no_progress", STOPPED, {**STOPPED, "halt_reason": "error_streak"}),
        ("reason=timeout", {**STOPPED, "halt_reason": "wall_clock"}, STOPPED),
        ("reason=other", {**STOPPED, "halt_reason": "made_up"}, STOPPED),
        ("reason=made_up", {**STOPPED, "halt_reason": "made_up"}, {**STOPPED, "halt_reason": "made_up_2"}),
        ("watched=1", {"would_halt": "no_progress"}, {**STOPPED, "would_halt": "no_progress"}),
        ("would_halt=timeout", {"would_halt": "wall_clock"}, {**STOPPED, "would_halt": "wall_clock"}),
        ("looped=1", {"looped": True}, STOPPED),
        ("provider_failure=1", {"provider_failure": True}, {"outcome": "failed"}),
        ("forced=1", {"outcome": "completed_forced"}, {"outcome": "unresolved"}),
        ("blocked=1", {"blocked": 1}, {"blocked_by_provider": 1}),
        ("duplicates=1", {"duplicates": 1}, {"duplicates": 0}),
        ("completes=1", {"completes": True}, {"completes": False}),
        ("eligible=1", {"eligible": True}, {"eligible": False}),
        ("answered=1", {"answer": "forced"}, {"answer": "none"}),
        ("step_unit=turn", {"step_unit": "turn"}, {"step_unit": "tool_call"}),
        ("steps_min=7", {"steps": 7}, {"steps": 6}),
        ("steps_max=7", {"steps": 7}, {"steps": 8}),
        ("steps_min=7&steps_max=7", {"steps": 7}, {"steps": 8}),
        ("steps_min=0&steps_max=0", {"steps": 0}, {"steps": 1}),
        ("near_cap=1", {"steps": 36, "step_cap": 40}, {"steps": 35, "step_cap": 40}),
        ("near_cap=1", {"steps": 14, "step_cap": 15}, {"steps": 13, "step_cap": 15}),
        ("near_cap=1", {"steps": 10**9, "step_cap": 10**9}, {"steps": 99, "step_cap": None}),
        ("attempt_min=2", {"attempt": 2}, {"attempt": 1}),
        ("cost=useful", {"outcome": "completed"}, {"outcome": "completed_forced"}),
        ("cost=forced", {"outcome": "unresolved"}, {"outcome": "completed"}),
        ("cost=halted", {"outcome": "escalated"}, {"outcome": "cancelled"}),
        ("cost=failed", {"outcome": "cancelled"}, {"outcome": "halted"}),
        ("source=domain:a.example", {"detail": USED}, {"detail": {"sources": []}}),
        (
            "source=tool:a.example",
            {"detail": {"sources": [{"kind": "tool", "name": "a.example"}]}},
            {"detail": USED},
        ),
        ("root=task-1", {"root_task_id": "task-1"}, {"root_task_id": "task-12"}),
        ("delegated=1", {"parent_run_id": uuid4()}, {"parent_run_id": None}),
        ("q=task-1", {"root_task_id": "task-12"}, {"root_task_id": "a-task-1"}),
        ("q=lead", {"agent": "lead-2"}, {"agent": "misleading"}),
        ("q=100%25", {"agent": "100% sure"}, {"agent": "100 sure"}),
        ("q=a_b", {"agent": "a_b"}, {"agent": "axb"}),
    ],
)
def test_filter_lists_exactly_what_matches(
    viewer: Client, add: Add, query: str, matching: dict[str, Any], other: dict[str, Any]
) -> None:
    wanted = add(**matching)
    add(**other)
    assert listed(viewer, f"?{query}") == [wanted]


def test_review_lists_stops_by_what_was_thought_of_them(cast: Cast, viewer: Client, add: Add) -> None:
    reviewer = make_member(cast.tenant, Role.REVIEWER)
    wrong, right, open_stop = add(**STOPPED), add(**STOPPED), add(**STOPPED)
    shadowed = add(mode="shadow", would_halt="no_progress")
    add(mode="shadow")
    for run_id, verdict in ((wrong, StopVerdict.FALSE_STOP), (right, StopVerdict.RIGHT_STOP)):
        review_stop(
            Run.objects.get(run_id=run_id),
            verdict=verdict,
            detector="no_progress",
            note="",
            actor=reviewer,
            now=datetime.now(UTC),
            seen=None,
        )
    assert listed(viewer, "?review=false_stop") == [wrong]
    assert listed(viewer, "?review=right_stop") == [right]
    assert set(listed(viewer, "?review=none")) == {open_stop, shadowed}


def test_filters_narrow_together(viewer: Client, add: Add) -> None:
    wanted = add(**STOPPED, job_type="coding", looped=True)
    add(**STOPPED, job_type="coding")
    add(job_type="coding", looped=True)
    assert listed(viewer, "?job=coding&looped=1&stopped=1") == [wanted]


def test_run_that_names_no_task_is_found_as_its_own(viewer: Client, add: Add) -> None:
    root = add()
    child = add(root_task_id=str(root))
    add()
    assert set(listed(viewer, f"?root={root}")) == {root, child}


def test_run_id_is_found_by_its_beginning(viewer: Client, add: Add, now: datetime) -> None:
    wanted = add(at=now - timedelta(minutes=9))
    add()
    assert listed(viewer, f"?q={wanted}") == [wanted]
    assert listed(viewer, f"?q={str(wanted)[:18]}") == [wanted]
    assert listed(viewer, f"?q={wanted.hex[:20].upper()}") == [wanted]
    assert listed(viewer, f"?q={uuid4()}") == []


def test_default_range_is_a_day(viewer: Client, add: Add, now: datetime) -> None:
    recent = add(at=now - timedelta(hours=23))
    older = add(at=now - timedelta(hours=25))
    assert listed(viewer) == [recent]
    assert listed(viewer, "?range=7d") == [recent, older]


def test_window_is_half_open(viewer: Client, add: Add, now: datetime) -> None:
    start = now.replace(minute=0, second=0) - timedelta(hours=3)
    end = start + timedelta(minutes=30)
    first = add(at=start)
    last = add(at=end - timedelta(milliseconds=1))
    add(at=start - timedelta(milliseconds=1))
    add(at=end)
    ends = urlencode({"from": start.isoformat(), "to": end.isoformat()})
    assert listed(viewer, f"?{ends}") == [last, first]


def test_run_longer_than_its_window_is_listed_where_it_ended(viewer: Client, add: Add, now: datetime) -> None:
    wanted = add(duration_ms=20 * 3_600_000)
    assert listed(viewer, "?range=1h") == [wanted]


def test_tenant_narrows_to_one_of_several(cast: Cast, member: Client, add: Add) -> None:
    here, there = add(), add(tenant_id=cast.sibling.pk)
    assert set(listed(member)) == {here, there}
    assert listed(member, "?tenant=support") == [there]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("range=2h", "is no range"),
        ("from=yesterday", "is no time"),
        ("from=2026-01-02&to=2026-01-01", "ends before it begins"),
        ("from=2020-01-01&to=2026-01-01", "90 days"),
        ("outcome=great", "great is not one of the available choices"),
        ("family=budgets", "budgets is not one of the available choices"),
        ("looped=0", "Write 1 or leave it out"),
        ("near_cap=yes", "Write 1 or leave it out"),
        ("steps_min=many", "Enter a whole number"),
        ("steps_min=-1", "greater than or equal to 0"),
        ("steps_max=99999999999999999999", "less than or equal to"),
        ("steps_min=9&steps_max=8", "Must not be below the fewest steps"),
        ("attempt_min=0", "greater than or equal to 1"),
        ("cost=spent", "spent is not one of the available choices"),
        ("step_unit=hop", "hop is not one of the available choices"),
        ("sort=tenant", "tenant is not one of the available choices"),
        ("size=201", "less than or equal to 200"),
        ("size=0", "greater than or equal to 1"),
        ("after=nowhere", "This page of the list cannot be found"),
        ("before=%00", "This page of the list cannot be found"),
        ("q=%00", "Null characters are not allowed"),
        ("job=" + "x" * 129, "at most 128 characters"),
        ("job=a&job=b", "Given more than once"),
        ("stopped=1&stopped=1", "Given more than once"),
    ],
)
def test_value_that_makes_no_sense_is_said_and_nothing_listed(
    viewer: Client, add: Add, query: str, said: str
) -> None:
    run_id = add()
    page = viewer.get(f"/runs/?{query}").content.decode()
    assert said in page
    assert "These filters cannot be read" in page
    assert str(run_id) not in page


def test_unknown_parameter_is_named_and_the_rest_counts(viewer: Client, add: Add) -> None:
    wanted = add(job_type="coding")
    add()
    page = viewer.get("/runs/?job=coding&outcom=halted").content.decode()
    assert "Not a filter of this list, so ignored" in page
    assert "<code><bdi>outcom</bdi></code>" in page
    assert listed(viewer, "?job=coding&outcom=halted") == [wanted]


def test_every_filter_in_force_has_a_link_that_drops_it(viewer: Client, add: Add) -> None:
    add(**STOPPED)
    response = viewer.get("/runs/?outcome=halted&outcome=failed&stopped=1&range=7d&job=research")
    chips = {(chip.label, chip.value): chip.without for chip in response.context["chips"]}
    assert chips == {
        ("Outcome", "Halted"): "?outcome=failed&stopped=1&range=7d&job=research",
        ("Outcome", "Failed"): "?outcome=halted&stopped=1&range=7d&job=research",
        ("Stopped by the guard", ""): "?outcome=halted&outcome=failed&range=7d&job=research",
    }


def test_form_that_sends_empty_fields_gets_an_address_without_them(viewer: Client, add: Add) -> None:
    response = viewer.get("/runs/?range=24h&tenant=&job=&outcome=halted&q=")
    assert response.status_code == 302
    assert response["Location"] == "/runs/?range=24h&outcome=halted"


def test_named_range_replaces_the_ends_left_in_the_form(viewer: Client) -> None:
    response = viewer.get("/runs/?range=7d&from=2026-01-01&to=2026-01-02")
    assert response["Location"] == "/runs/?range=7d"


def test_unseen_characters_come_back_as_the_form_showed_them(viewer: Client, add: Add) -> None:
    wanted = add(job_type="re\u202esearch")
    add(job_type="research")
    assert listed(viewer, "?job=re%E2%80%AEsearch") == [wanted]
    assert listed(viewer, "?job=re%E2%9F%A6U%2B202E%E2%9F%A7search") == [wanted]
    page = viewer.get("/runs/?job=re%E2%80%AEsearch").content.decode()
    assert '<option value="re⟦U+202E⟧search" selected>' in page


@pytest.mark.parametrize("name", ["⟦U+0000⟧", "⟦U+D800⟧", "⟦U+110000⟧", "⟦U+0041⟧"])
def test_name_that_no_run_can_have_matches_none(viewer: Client, add: Add, name: str) -> None:
    add()
    assert listed(viewer, f"?{urlencode({'job': name})}") == []
