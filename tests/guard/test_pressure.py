from __future__ import annotations

from guardops.guard.policy import Limits
from tests.guard.agent import Agent, guard


def test_each_limit_of_a_run_has_its_share() -> None:
    agent = Agent(max_steps=10, max_seconds=100, stall_limit=5, domain_cap=4, listing_cap=4, max_cost="1")
    for page in (1, 2):
        agent.call("fetch", {"url": f"https://a.example/?page={page}"}, f"r{page}", progressed=False)
    agent.call("read", {"x": 1}, error={"status": 404})
    agent.run.turn(cost="0.25")
    agent.run.check("read", {"x": 2})
    agent.now = 80
    shares = agent.run.pressure()
    assert {name: shares[name] for name in ("max_steps", "max_seconds", "stall_limit", "max_cost")} == {
        "max_steps": 0.4,
        "max_seconds": 0.8,
        "stall_limit": 0.6,
        "max_cost": 0.25,
    }
    assert (shares["domain_cap"], shares["listing_cap"], shares["max_error_streak"]) == (0.5, 0.5, 0.2)
    names = {"max_retries_run", "max_turns", "max_tokens", "max_refusals", "descendants", "children"}
    assert names < shares.keys()
    assert shares.keys() <= set(Limits.__dataclass_fields__)


def test_a_limit_of_nothing_has_no_share_and_a_spent_one_has_the_whole() -> None:
    agent = Agent(descendants=0, max_steps=1)
    agent.call("read", result="r")
    shares = agent.run.pressure()
    assert "descendants" not in shares
    assert shares["max_steps"] == 1


def test_a_shared_budget_counts_by_whichever_is_nearer_to_its_end() -> None:
    guarded = guard(max_steps=10)
    parent, child = (guarded.run(job_type="t", root_task_id="root", clock=lambda: 0.0) for _ in range(2))
    for x in range(5):
        parent.check("read", {"x": x})
    child.check("read", {"x": 9})
    assert child.pressure()["max_steps"] == 0.6


def test_a_deadline_counts_from_the_start() -> None:
    run = guard().run(job_type="t", deadline=40, clock=lambda: 30.0)
    assert run.pressure()["deadline"] == 0.75
