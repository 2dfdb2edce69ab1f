from __future__ import annotations

import msgspec
import pytest

from guardops.guard.ledger import SNAPSHOT_BYTES, SNAPSHOT_ROWS
from tests.guard.agent import Agent


def rows(agent: Agent) -> list[dict[str, object]]:
    return msgspec.json.decode(agent.run.snapshot())["ledger"]


def test_a_snapshot_holds_the_ten_newest_rows_newest_first() -> None:
    agent = Agent()
    for i in range(15):
        agent.now = i
        agent.call(f"t{i}", {"i": i}, f"r{i}")
    assert [row["tool"] for row in rows(agent)] == [f"t{i}" for i in range(14, 14 - SNAPSHOT_ROWS, -1)]


@pytest.mark.parametrize("name", ["t", "name" * 60, "ü" * 100, '"' * 100])
def test_a_snapshot_is_at_most_a_kilobyte(name: str) -> None:
    agent = Agent(max_refusals=99, max_error_streak=99)
    for i in range(12):
        agent.call(f"{i}{name}", {"i": i}, error={"code": "E" * 60})
    snapshot = agent.run.snapshot()
    assert len(snapshot) <= SNAPSHOT_BYTES
    assert rows(agent)


def test_a_snapshot_says_what_the_next_proposal_depends_on() -> None:
    agent = Agent(tools={"pay": {"class": "side_effect"}, "save": {"class": "write"}})
    agent.reasons(2, "read", result="same")
    agent.call("pay", result="paid")
    agent.call("save", error={"class": "timeout"})
    agent.call("gone", error={"status": 404, "code": "no_such"})
    agent.check("gone")
    by_tool = {row["tool"]: row for row in rows(agent)}
    assert (by_tool["read"]["n"], by_tool["read"]["same"]) == (2, 2)
    assert by_tool["pay"]["done"]
    assert by_tool["save"]["uncertain"]
    assert (by_tool["gone"]["last"], by_tool["gone"]["error"]) == ("permanent", "no_such")
    assert by_tool["gone"]["blocked"]


def test_rows_on_the_wire_remember_first_and_last_error() -> None:
    agent = Agent()
    for code in ("e1", "e2"):
        agent.call("read", error={"status": 503, "code": code})
        agent.now += 10
    row = agent.run.end().ledger[0]
    assert (row.first_error, row.last_error, row.error_class, row.retryable) == (
        "e1",
        "e2",
        "unavailable",
        True,
    )
    assert (row.count, row.side_effect, row.in_flight) == (2, "read", False)


def test_a_row_in_flight_says_so() -> None:
    agent = Agent()
    agent.ticket("read")
    assert agent.run.end().ledger[0].in_flight


def test_the_wire_takes_the_fifty_newest_rows() -> None:
    agent = Agent(max_steps=100)
    for i in range(60):
        agent.now = i
        agent.call("read", {"i": i}, f"r{i}")
    event = agent.run.end()
    assert len(event.ledger) == 50
    assert "ledger" in event.truncated


def test_a_success_ends_the_last_error_and_keeps_the_first() -> None:
    agent = Agent()
    agent.call("read", error={"status": 503})
    agent.now += 10
    agent.call("read", result="text")
    row = agent.run.end().ledger[0]
    assert (row.first_error, row.last_error) == ("503", "")


def test_an_error_without_a_code_is_known_by_its_class() -> None:
    agent = Agent()
    agent.call("read", error="no such page")
    row = agent.run.end().ledger[0]
    assert (row.first_error, row.last_error) == ("unknown", "unknown")
