from __future__ import annotations

from datetime import timedelta

import pytest

from policies.blocklist.given import (
    MAX_LINES,
    InvalidTable,
    evidence_path,
    given_by_lines,
    given_by_table,
)
from policies.choices import BlockAction, SourceKind
from policies.errors import InvalidSource
from policies.publish.sources import Wanted
from tests.policies.conftest import NOW

LIKE = Wanted("", reason="tarpit", expires_at=NOW + timedelta(days=7))


def read(*lines: str) -> list[str]:
    """Return what became of each line of a table: its name, or the code of what is wrong."""
    given = given_by_table("\n".join(lines), LIKE, NOW)
    return [line.error.code if line.error else line.text for line in given]


def test_names_are_counted_by_the_lines_they_stand_in() -> None:
    given = given_by_lines("a.example\n\n  b.example  \n", LIKE)
    assert [(line.number, line.text) for line in given] == [(1, "a.example"), (3, "b.example")]
    assert given[0].wanted is not None
    assert given[0].wanted.reason == "tarpit"


@pytest.mark.parametrize("text", ["", "\n \n", "x\n" * (MAX_LINES + 1)])
def test_no_line_and_too_many_are_refused(text: str) -> None:
    with pytest.raises(InvalidTable):
        given_by_lines(text, LIKE)


def test_empty_cells_are_as_the_form_says() -> None:
    [given] = given_by_table("name,reason,expires_at,kind\na.example,,,\n", LIKE, NOW)
    assert given.wanted == Wanted("a.example", reason="tarpit", expires_at=NOW + timedelta(days=7))


def test_cells_say_more_than_the_form() -> None:
    [given] = given_by_table(
        "Name;Kind;Action;Most;Match;Expires_at\nfetch;tool;limit;3;exact;2027-01-31T12:00Z\n", LIKE, NOW
    )
    assert given.wanted is not None
    assert (given.wanted.kind, given.wanted.action, given.wanted.most) == (
        SourceKind.TOOL,
        BlockAction.LIMIT,
        3,
    )
    assert not given.wanted.exact  # a tool has no hosts


@pytest.mark.parametrize(
    ("column", "cell", "code"),
    [
        ("kind", "planet", "no_choice"),
        ("match", "some", "no_choice"),
        ("action", "nuke", "no_choice"),
        ("reason", "x" * 301, "too_long"),
        ("note", "x" * 2_001, "too_long"),
        ("expires_at", "tomorrow", "no_time"),
        ("expires_at", "99999-01-01", "no_time"),
        ("expires_at", "9999-12-31T23:59:59-14:00", "no_time"),
        ("expires_at", "9999-12-31T20:00Z", "no_time"),
        ("expires_at", "2020-01-01T00:00Z", "over"),
        ("expires_at", "0001-01-01T00:00+14:00", "no_time"),
        ("evidence", "https://attacker.example/", "no_evidence"),
        ("evidence", "javascript:alert(1)", "no_evidence"),
    ],
)
def test_cell_that_makes_no_sense_refuses_its_line_alone(column: str, cell: str, code: str) -> None:
    assert read(f"name,{column}", f"a.example,{cell}", "b.example,") == [code, "b.example"]


def test_expiry_is_kept_as_the_database_knows_it() -> None:
    [given] = given_by_table("name,expires_at\na.example,2027-01-31T12:00:00+00:00:30.5\n", LIKE, NOW)
    assert given.wanted is not None
    assert given.wanted.expires_at is not None
    assert given.wanted.expires_at.isoformat() == "2027-01-31T11:59:29.500000+00:00"


@pytest.mark.parametrize("most", ["-1", "501", "1e9", "९९९९", "9" * 400])
def test_limit_that_no_guard_may_have_is_refused(most: str) -> None:
    assert read("name,action,most", f"a.example,limit,{most}") == ["no_number"]


@pytest.mark.parametrize("text", ["host\na.example", "name\n\0", '"', "name\n" + "x" * 200_000])
def test_file_that_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(InvalidTable):
        given_by_table(text, LIKE, NOW)


@pytest.mark.parametrize("path", ["", "/runs/", "/runs/?job=research"])
def test_page_of_ours_is_evidence(path: str) -> None:
    assert evidence_path(path) == path


@pytest.mark.parametrize("path", ["//attacker.example/", "/\\attacker.example", "/nowhere/", "x", "/runs/\n"])
def test_other_address_is_no_evidence(path: str) -> None:
    with pytest.raises(InvalidSource):
        evidence_path(path)
