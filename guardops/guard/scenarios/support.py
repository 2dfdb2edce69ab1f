"""Scripted support agents: they look up orders, decide, act once and tell the customer."""

from __future__ import annotations

from random import Random

from guardops.guard.events import Outcome
from guardops.guard.scenarios.script import Script, Turn, calls

JOB = "support"
AGENT = "desk"
TOOLS: dict[str, dict[str, object]] = {
    "update_ticket": {"class": "write"},
    "refund_order": {"class": "side_effect"},
    "send_message": {"class": "side_effect"},
    "close_account": {"class": "side_effect", "forbidden": True},
    "pay_compensation": {"class": "side_effect", "approval": True},
}


def _order(rng: Random) -> str:
    return f"W{rng.randrange(10**6):06}"


def _look_up(rng: Random, order: str) -> Turn:
    found = {
        "order": order,
        "status": rng.choice(("sent", "delivered", "lost")),
        "total": rng.randrange(5, 400),
    }
    return calls("get_order", {"order": order}, found, progressed=True, seconds=rng.uniform(0.1, 0.6))


def settles_a_ticket(rng: Random) -> Script:
    """Look up, refund or note, tell the customer, answer."""
    order = _order(rng)
    yield _look_up(rng, order)
    for number in range(rng.randrange(0, 4)):
        yield calls(
            "search_help", {"topic": f"{order} question {number}"}, f"article {number}", progressed=True
        )
    if rng.random() < 0.5:
        yield calls("refund_order", {"order": order}, {"refund": order}, progressed=True)
    yield calls("update_ticket", {"ticket": order, "note": "settled"}, "ok", progressed=True)
    yield calls("send_message", {"to": order, "text": "settled"}, "sent", progressed=True)
    yield Turn()
    return Outcome.COMPLETED if rng.random() < 0.95 else Outcome.FAILED


def refunds_twice(rng: Random) -> Script:
    """Refund an order, lose track, refund it again (refused), then close the ticket."""
    order = _order(rng)
    yield _look_up(rng, order)
    yield calls("refund_order", {"order": order}, {"refund": order}, progressed=True)
    yield calls("update_ticket", {"ticket": order, "note": "refunded"}, "ok", progressed=True)
    yield calls("refund_order", {"order": order}, {"refund": order}, progressed=True)
    yield calls("send_message", {"to": order, "text": "refunded"}, "sent", progressed=True)
    yield Turn()
    return Outcome.COMPLETED


def has_no_access(rng: Random) -> Script:
    """The order system refuses the agent's credentials."""
    order = _order(rng)
    for _ in range(6):
        yield calls("get_order", {"order": order}, error={"status": 401})
    return Outcome.FAILED


def has_no_quota(rng: Random) -> Script:
    """The order system's quota is used up, which it says under 429."""
    order = _order(rng)
    yield _look_up(rng, order)
    for _ in range(6):
        yield calls("search_help", {"topic": order}, error={"status": 429, "code": "insufficient_quota"})
    return Outcome.FAILED


def asks_again(rng: Random) -> Script:
    """The same look-up over and over, with the same answer each time."""
    order = _order(rng)
    yield _look_up(rng, order)
    for _ in range(60):
        yield calls("get_tracking", {"order": order}, "no news")
    return Outcome.FAILED


def loses_a_refund(rng: Random) -> Script:
    """A refund times out; nobody knows whether it was made, and the agent tries it again."""
    order = _order(rng)
    yield _look_up(rng, order)
    for _ in range(4):
        yield calls("refund_order", {"order": order}, error={"class": "timeout"}, seconds=30.0)
    return Outcome.FAILED


def asks_for_leave(rng: Random) -> Script:
    """Want to pay more than an agent may without a person."""
    order = _order(rng)
    yield _look_up(rng, order)
    yield calls("pay_compensation", {"order": order, "euros": rng.randrange(50, 300, 10)}, "paid")
    return Outcome.FAILED


def reaches_for_a_forbidden_tool(rng: Random) -> Script:
    """Decide to close the customer's account, which the policy forbids."""
    order = _order(rng)
    yield _look_up(rng, order)
    yield calls("close_account", {"order": order}, "closed")
    return Outcome.FAILED
