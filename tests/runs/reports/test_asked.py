"""What the overview's address may say."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import Http404

from guardops.tenants.access import Visible
from guardops.tenants.models import Tenant
from runs.reports.asked import Asked, NotAsked, read_asked
from runs.reports.windows import WindowError

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
TENANTS = [Tenant(pk=7, slug="acme"), Tenant(pk=9, slug="globex")]


def read(params: dict[str, str], *, operator: bool = False) -> Asked:
    return read_asked(params, Visible(TENANTS, operator), now=NOW, zone="UTC")


def query_of(href: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(href).query)


def test_member_without_a_tenant_sees_all_of_theirs() -> None:
    assert read({}).scope.tenant_ids == (7, 9)


def test_operator_without_a_tenant_sees_the_counts_of_all() -> None:
    assert read({}, operator=True).scope.tenant_ids == (0,)


def test_longest_release_that_a_run_can_have_is_one() -> None:
    release = f"{'r' * 128}+{'p' * 128}"
    assert read({"release": release}).scope.release == release


def test_tenant_narrows_everybody() -> None:
    assert read({"tenant": "globex"}).scope.tenant_ids == (9,)
    assert read({"tenant": "globex"}, operator=True).scope.tenant_ids == (9,)


def test_tenant_of_others_is_not_found() -> None:
    with pytest.raises(Http404):
        read({"tenant": "initech"})


@pytest.mark.parametrize(
    "params",
    [
        {"job": "a\0b"},
        {"job": "x" * 129},
        {"release": "\0"},
        {"halts": "pie"},
        {"steps": "1"},
        {"steps_job": "research"},
        {"steps_job": "research", "steps_unit": "parsec"},
        {"steps_job": "\0", "steps_unit": "turn"},
    ],
)
def test_nonsense_is_refused(params: dict[str, str]) -> None:
    with pytest.raises(NotAsked):
        read(params)


@pytest.mark.parametrize(
    "params", [{"range": "3y"}, {"from": "yesterday"}, {"from": "2026-01-01", "to": "2025-01-01"}]
)
def test_range_that_makes_no_sense_is_refused(params: dict[str, str]) -> None:
    with pytest.raises(WindowError):
        read(params)


def test_chosen_range_takes_the_place_of_an_own_window() -> None:
    asked = read({"range": "7d", "from": "2026-03-01", "to": "2026-03-02"})

    assert asked.window.key == "7d"
    assert query_of(asked.links.page()) == {"range": ["7d"]}


def test_link_to_rows_has_fixed_times_and_keeps_the_scope() -> None:
    asked = read({"tenant": "acme", "job": "r&d", "release": "1 + 1", "range": "1h", "halts": "table"})
    href = asked.links.runs(asked.window.start, asked.window.end, outcome=("halted", "escalated"))

    assert href.startswith("/runs/?")
    assert query_of(href) == {
        "from": ["2026-03-14T14:15:00Z"],
        "to": ["2026-03-14T15:15:00Z"],
        "tenant": ["acme"],
        "job": ["r&d"],
        "release": ["1 + 1"],
        "outcome": ["halted", "escalated"],
    }


def test_link_to_the_page_changes_one_part_and_keeps_the_others() -> None:
    links = read({"tenant": "acme", "halts": "table", "steps_job": "r", "steps_unit": "turn"}).links

    assert query_of(links.page(halts=None, steps="table")) == {
        "tenant": ["acme"],
        "steps": ["table"],
        "steps_job": ["r"],
        "steps_unit": ["turn"],
    }
