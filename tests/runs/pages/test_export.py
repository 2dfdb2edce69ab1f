"""The runs list as a file: the rows, the order and the tenants of the list, whatever it holds."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Thread
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client

from runs.keyset import Sort
from runs.models import Run
from runs.pages.export import COLUMNS, read_rows
from runs.reports.windows import parse_window
from tests.runs.pages.conftest import Cast, listed
from tests.runs.pages.test_list import MEASURES
from tests.runs.rows import insert_rows, make_row, random_rows

Add = Callable[..., UUID]


def exported(client: Client, query: str = "") -> list[dict[str, str]]:
    response = client.get(f"/runs/export.csv{query}")
    assert response.status_code == 200, response.content
    text = b"".join(response.streaming_content).decode()  # type: ignore[attr-defined]
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@pytest.fixture
def seeded(cast: Cast, now: datetime) -> None:
    rows = random_rows(random.Random(7), 150, now - timedelta(days=3), now)
    rows += [make_row(now - timedelta(hours=1), job_type="coding", looped=True, steps=38) for _ in range(4)]
    tenants = {1: cast.tenant.pk, 2: cast.sibling.pk, 3: cast.foreign.pk}
    insert_rows({**row, "tenant_id": tenants[row["tenant_id"]]} for row in rows)


@pytest.mark.parametrize("order", ["", "sort=at", "sort=-cost", "sort=steps", "sort=-duration"])
def test_file_holds_the_rows_of_the_list_in_its_order(member: Client, seeded: None, order: str) -> None:
    query = f"?range=7d&size=200&{order}"
    rows = exported(member, query)

    assert [UUID(row["run_id"]) for row in rows] == listed(member, query)
    assert {row["tenant"] for row in rows} == {"research", "support"}


def test_file_has_as_many_rows_as_the_list_says(viewer: Client, seeded: None) -> None:
    for filters in MEASURES.values():
        total = viewer.get(f"/runs/?range=7d&size=1&{filters}").context["listing"].total
        assert len(exported(viewer, f"?range=7d&size=1&{filters}")) == total.number, filters


def test_file_is_the_whole_list_whatever_page_is_open(viewer: Client, add: Add) -> None:
    ids = {add(), add(), add()}
    place = viewer.get("/runs/?size=1").context["listing"].page.next
    assert {UUID(row["run_id"]) for row in exported(viewer, f"?size=1&after={place}")} == ids


def test_row_says_what_the_run_was(viewer: Client, add: Add, now: datetime) -> None:
    at = now - timedelta(minutes=2)
    run_id = add(at=at, job_type="=cmd()", outcome="halted", halt_reason="no_progress", cost=Decimal("0.1"))
    (row,) = exported(viewer)
    shown = {name: row[name] for name in ("at", "run_id", "root_task_id", "job_type", "outcome")}

    assert list(row) == list(COLUMNS)
    assert shown == {
        "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "run_id": str(run_id),
        "root_task_id": str(run_id),
        "job_type": "'=cmd()",
        "outcome": "halted",
    }
    assert (row["cost_usd"], row["steps"], row["looped"]) == ("0.100000", "5", "no")


def test_name_of_the_file_says_the_range(viewer: Client, add: Add) -> None:
    query = "?from=2026-11-01T00:00Z&to=2026-11-02T00:00Z"
    disposition = viewer.get(f"/runs/export.csv{query}")["Content-Disposition"]
    assert disposition == 'attachment; filename="guardops-runs-20261101T0000Z-20261102T0000Z.csv"'


def test_filters_that_make_no_sense_export_nothing(viewer: Client, add: Add) -> None:
    add()
    response = viewer.get("/runs/export.csv?range=3y&job=a")
    assert response.status_code == 400
    assert 'href="/runs/?range=3y&amp;job=a"' in response.content.decode()


def test_other_tenants_runs_are_not_exported(cast: Cast, viewer: Client, add: Add) -> None:
    mine = add()
    add(tenant_id=cast.sibling.pk)
    add(tenant_id=cast.foreign.pk)
    assert [row["run_id"] for row in exported(viewer)] == [str(mine)]
    assert viewer.get("/runs/export.csv?tenant=support").status_code == 404


def test_stranger_to_every_tenant_gets_no_row(cast: Cast, client: Client, add: Add) -> None:
    add()
    client.force_login(cast.outsider)
    assert exported(client) == []


def test_asking_for_the_head_reads_no_rows(viewer: Client) -> None:
    assert viewer.head("/runs/export.csv").status_code == 405


def test_list_leads_to_its_file(viewer: Client, add: Add) -> None:
    add(), add()
    for headers in ({}, {"HX-Request": "true"}):
        page = viewer.get("/runs/?outcome=completed&sort=cost&size=1", headers=headers).content.decode()
        assert 'href="/runs/export.csv?outcome=completed&amp;sort=cost&amp;size=1"' in page
        assert "2 rows" in page


@pytest.mark.django_db(transaction=True)
def test_run_that_ends_meanwhile_is_not_in_the_file(
    cast: Cast, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.pages.export._ROWS_AT_ONCE", 1)
    window = parse_window({"range": "7d"}, now, "UTC")
    before = [make_row(now - timedelta(days=day, hours=1), tenant_id=cast.tenant.pk) for day in range(4)]
    insert_rows(before)
    rows = read_rows(Run.objects.for_tenants([cast.tenant.pk]).within(window), Sort(), window, {})
    found = [next(rows)]
    insert_in_another_connection(make_row(now - timedelta(days=2), tenant_id=cast.tenant.pk))
    found += rows

    place = list(COLUMNS).index("run_id")
    assert [row[place] for row in found] == [row["run_id"] for row in before]


def insert_in_another_connection(row: dict[str, Any]) -> None:
    def insert() -> None:
        insert_rows([row])
        connection.close()

    other = Thread(target=insert)
    other.start()
    other.join()
