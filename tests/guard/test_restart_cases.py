"""Cases of our own, in the form of the case files, about agents whose process dies and is started again."""

from __future__ import annotations

from typing import Any

import pytest

from guardops.guard.cases import difference, run_case

RESTART = {"tool": "@restart", "args": {}}
TOOLS = {
    "pay": {"class": "side_effect"},
    "save": {"class": "write"},
    "put": {"class": "write", "idempotent": True},
    "send": {"class": "side_effect", "approval": True},
    "job": {"poll": {"interval": 10, "max_attempts": 3, "terminal": ["DONE"]}},
    "ask": {"kind": "delegate"},
    "spawn": {"kind": "spawn"},
}


def call(tool: str, /, result: Any = "ok", **more: Any) -> dict[str, Any]:
    extra = {name: more.pop(name) for name in ("at", "batch", "crash", "error", "progressed") if name in more}
    return {"tool": tool, "args": more, "result": None if "error" in extra else result, **extra}


def turn(tokens: int = 0, cost: float = 0) -> dict[str, Any]:
    return call("@turn", tokens=tokens, cost=cost)


def fetch(page: int) -> dict[str, Any]:
    return call("fetch", f"page {page}", url=f"https://a.example/list?page={page}")


Case = tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]
CASES: dict[str, Case] = {
    "a write in flight is uncertain": (
        {},
        [call("save", x=1, crash=True), call("save", x=2), call("save", x=1)],
        {"verdict": "uncertain_write", "at_step": 3, "phase": "pre"},
    ),
    "a side effect in flight is uncertain, not done": (
        {},
        [call("pay", to="a", crash=True), RESTART, call("pay", to="a")],
        {"verdict": "uncertain_write", "at_step": 3, "phase": "pre"},
    ),
    "an idempotent write in flight is just made again": (
        {},
        [call("put", x=1, crash=True), call("put", x=1)],
        {"verdict": "continue", "at_step": 2},
    ),
    "a read in flight is just made again": (
        {},
        [call("read", x=1, crash=True), call("read", x=1)],
        {"verdict": "continue", "at_step": 2},
    ),
    "a read in flight has cost its step": (
        {"max_steps": 3},
        [call("read", x=1, crash=True), call("read", "a", x=2), call("read", "b", x=3)],
        {"verdict": "step_budget", "at_step": 3, "phase": "post"},
    ),
    "only what was in flight of a batch is uncertain": (
        {},
        [call("save", x=1, batch=1), call("save", x=2, batch=1, crash=True), call("save", x=2)],
        {"verdict": "uncertain_write", "at_step": 3, "phase": "pre"},
    ),
    "a write that timed out stays uncertain": (
        {},
        [call("save", x=1, error={"class": "TimeoutError"}), RESTART, call("save", x=1)],
        {"verdict": "uncertain_write", "at_step": 3, "phase": "pre"},
    ),
    "polls are counted on": (
        {},
        [
            call("job", {"status": "RUNNING"}, at=0),
            call("job", {"status": "RUNNING"}, at=10),
            {**RESTART, "at": 12},
            call("job", {"status": "RUNNING"}, at=20),
            call("job", {"status": "RUNNING"}, at=30),
        ],
        {"verdict": "poll_exhausted", "at_step": 5, "phase": "pre"},
    ),
    "the interval of a poll outlives the process": (
        {},
        [call("job", {"status": "RUNNING"}, at=0), RESTART, call("job", {"status": "RUNNING"}, at=4)],
        {"verdict": "wait", "at_step": 3, "not_before": 10},
    ),
    "a poll after its end brings nothing": (
        {},
        [call("job", {"status": "DONE"}, at=0), RESTART, call("job", {"status": "DONE"}, at=20)],
        {"verdict": "tool_no_progress", "at_step": 3, "phase": "pre"},
    ),
    "back-off outlives the process": (
        {},
        [call("read", error={"status": 503}, at=5), RESTART, call("read", at=5.5)],
        {"verdict": "wait", "at_step": 3, "not_before": 6},
    ),
    "what a service asked to wait outlives the process": (
        {},
        [call("read", error={"status": 429, "retry_after": 30}, at=0), RESTART, call("read", at=10)],
        {"verdict": "wait", "at_step": 3, "not_before": 30},
    ),
    "retries are counted on": (
        {},
        [
            call("read", error={"status": 503}, at=0),
            call("read", error={"status": 503}, at=2),
            RESTART,
            call("read", error={"status": 503}, at=10),
            call("read", error={"status": 503}, at=60),
        ],
        {"verdict": "tool_retry_exhausted", "at_step": 5, "phase": "pre"},
    ),
    "the run's retry budget is counted on": (
        {"max_retries_run": 1},
        [
            call("read", error={"status": 503}, x=1, at=0),
            call("read", error={"status": 503}, x=1, at=2),
            RESTART,
            call("read", error={"status": 503}, x=2, at=10),
            call("read", x=2, at=20),
        ],
        {"verdict": "tool_retry_exhausted", "at_step": 5, "phase": "pre"},
    ),
    "a permanent failure stays one": (
        {},
        [call("read", error={"status": 404}), RESTART, call("read")],
        {"verdict": "tool_no_progress", "at_step": 3, "phase": "pre"},
    ),
    "an empty result stays one": (
        {},
        [call("read", []), RESTART, call("read", [])],
        {"verdict": "tool_no_progress", "at_step": 3, "phase": "pre"},
    ),
    "equal reads are counted on": (
        {},
        [call("read", "r"), call("read", "r"), RESTART, call("read", "r"), call("read", "r")],
        {"verdict": "repeated_call", "at_step": 5, "phase": "pre"},
    ),
    "a new version of the evidence stays known": (
        {},
        [call("@state", version=7), call("read", []), RESTART, call("@state", version=7), call("read", [])],
        {"verdict": "tool_no_progress", "at_step": 5, "phase": "pre"},
    ),
    "a cycle is seen across a restart": (
        {},
        [
            call("a", "1"),
            call("b", "2"),
            call("a", "1"),
            RESTART,
            call("b", "2"),
            call("a", "1"),
            call("b", "2"),
        ],
        {"verdict": "cycle_period_2", "at_step": 7, "phase": "post"},
    ),
    "stalled steps are counted on": (
        {"stall_limit": 4},
        [
            *(call("read", f"r{i}", i=i, progressed=False) for i in range(2)),
            RESTART,
            *(call("read", f"r{i}", i=i, progressed=False) for i in range(2, 4)),
        ],
        {"verdict": "no_progress", "at_step": 5, "phase": "post"},
    ),
    "novelty is no news after a restart": (
        {"stall_limit": 2},
        [call("read", "same", i=1), RESTART, call("read", "same", i=2), call("read", "same", i=3)],
        {"verdict": "no_progress", "at_step": 4, "phase": "post"},
    ),
    "an error streak goes on": (
        {"max_error_streak": 3},
        [
            *(call("read", i=i, error={"status": 404}) for i in range(2)),
            RESTART,
            call("read", i=2, error={"status": 404}),
        ],
        {"verdict": "error_streak", "at_step": 4, "phase": "post"},
    ),
    "pages of a listing are counted on": (
        {"listing_cap": 3},
        [fetch(1), fetch(2), RESTART, fetch(3), fetch(4)],
        {"verdict": "listing_cap", "at_step": 5, "phase": "pre"},
    ),
    "fetches from a domain are counted on": (
        {"domain_cap": 3},
        [fetch(1), fetch(2), RESTART, fetch(3), fetch(4)],
        {"verdict": "source_cap", "at_step": 5, "phase": "pre"},
    ),
    "cost is counted on to the micro-dollar": (
        {"max_cost": "0.1"},
        [*(turn(cost=0.01) for _ in range(5)), RESTART, *(turn(cost=0.01) for _ in range(5))],
        {"verdict": "cost_budget", "at_step": 11, "phase": "post"},
    ),
    "tokens are counted on": (
        {"max_tokens": 100},
        [turn(60), RESTART, turn(60)],
        {"verdict": "token_budget", "at_step": 3, "phase": "post"},
    ),
    "turns are counted on": (
        {"max_turns": 3},
        [turn(), RESTART, turn(), RESTART, turn()],
        {"verdict": "max_turns", "at_step": 5, "phase": "post"},
    ),
    "time goes on": (
        {"max_seconds": 60},
        [call("read", at=30), RESTART, call("read", "s", x=1, at=59), call("read", x=2, at=60)],
        {"verdict": "wall_clock", "at_step": 4, "phase": "pre"},
    ),
    "an approval is used once, whatever dies": (
        {},
        [
            {"tool": "@approve", "args": {"tool": "send", "args": {"to": "x"}}},
            call("send", to="x", error={"status": 404}),
            RESTART,
            call("send", to="x"),
        ],
        {"verdict": "approval_required", "at_step": 4, "phase": "pre"},
    ),
    "two approvals before a restart are two": (
        {"tools": {"ask": {"approval": True}}},
        [
            {"tool": "@approve", "args": {"tool": "ask", "args": {}}},
            {"tool": "@approve", "args": {"tool": "ask", "args": {}}},
            RESTART,
            call("ask", "a"),
            RESTART,
            call("ask", "b"),
            call("ask", "c"),
        ],
        {"verdict": "approval_required", "at_step": 7, "phase": "pre"},
    ),
    "descendants are counted on, places for children are free again": (
        {"descendants": 3, "children": 1},
        [
            call("spawn", task=1, crash=True),
            call("spawn", task=2, crash=True),
            call("spawn", task=3),
            call("spawn", task=4),
        ],
        {"verdict": "descendants_budget", "at_step": 4, "phase": "pre"},
    ),
    "a ping-pong goes on": (
        {},
        [
            call("ask", "1", to="b"),
            call("ask", "2", to="a"),
            RESTART,
            call("ask", "3", to="b"),
            call("ask", "4", to="a"),
        ],
        {"verdict": "lineage_ping_pong", "at_step": 5, "phase": "pre"},
    ),
    "a halt of the root outlives the process": (
        {},
        [call("@restore", halt="cancelled"), RESTART, call("read")],
        {"verdict": "cancelled", "at_step": 3, "phase": "pre"},
    ),
    "a side effect is done once, however often the process dies": (
        {},
        [call("pay", to="a"), RESTART, RESTART, call("pay", to="b"), RESTART, call("pay", to="a")],
        {"verdict": "duplicate_side_effect", "at_step": 6, "phase": "pre"},
    ),
    "a write refreshes what was read before the restart": (
        {},
        [call("read", []), call("save", x=1), RESTART, call("read", [])],
        {"verdict": "continue", "at_step": 4},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_restart_forgets_nothing(name: str) -> None:
    policy, calls, expect = CASES[name]
    case = {"policy": {"tools": TOOLS} | policy, "calls": calls, "expect": expect}
    assert difference(case, run_case(case)) == ""
