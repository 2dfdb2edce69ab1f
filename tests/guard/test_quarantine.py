from __future__ import annotations

from guardops.guard.events import Action, Outcome
from guardops.guard.quarantine import MOST_SOURCES, QUARANTINE_SECONDS, Quarantine
from guardops.guard.session import Guard
from tests.guard.agent import STARTED_AT, Agent, guard, said


def fetch(agent: Agent, url: str) -> str:
    return said(agent.call("fetch", {"url": url}, url))


def stopped_by_its_source(guarded: Guard) -> Agent:
    """Return a run that was halted since it went on reading one domain beyond its cap."""
    agent = Agent(guarded)
    while agent.run.ladder.standing is not Action.HALT:
        fetch(agent, f"https://trap.example/{agent.run.counts.tool_calls}")
    return agent


def test_a_source_is_held_for_ten_minutes() -> None:
    now = [0.0]
    quarantine = Quarantine(lambda: now[0])
    quarantine.add(["trap.example"])
    assert quarantine.found({"good.example", "trap.example"}) == "trap.example"
    now[0] = QUARANTINE_SECONDS
    assert quarantine.found({"trap.example"}) is None


def test_sources_quarantined_longest_ago_go_first() -> None:
    quarantine = Quarantine(lambda: 0.0)
    quarantine.add(f"d{number}.example" for number in range(MOST_SOURCES + 1))
    assert quarantine.found({"d0.example"}) is None
    assert quarantine.found({"d1.example"}) is not None


def test_a_stopped_runs_source_is_refused_to_the_next_run_which_goes_on() -> None:
    guarded = guard(domain_cap=2)
    ended = stopped_by_its_source(guarded).run.end()
    assert [(source.name, source.proposed) for source in ended.sources if source.proposed] == [
        ("trap.example", True)
    ]
    other = Agent(guarded)
    check = other.check("fetch", {"url": "https://www.trap.example/"})
    assert (check.action, said(check)) == (Action.REFUSE, "blocked_source")
    assert fetch(other, "https://good.example/") == "continue"
    event = other.run.end(Outcome.COMPLETED)
    assert event.outcome is Outcome.COMPLETED
    assert not any(source.proposed for source in event.sources), "else it would never end"


def test_a_run_that_insists_on_a_quarantined_source_has_to_answer() -> None:
    guarded = guard(domain_cap=2)
    stopped_by_its_source(guarded)
    other = Agent(guarded)
    answers = [other.check("fetch", {"url": f"https://trap.example/{page}"}) for page in range(3)]
    assert [said(answer) for answer in answers] == ["blocked_source", "blocked_source", "refusal_limit"]


def test_a_tenants_quarantine_is_not_anothers() -> None:
    guarded = Guard(guard(domain_cap=2).policy, now=lambda: STARTED_AT)
    run = guarded.run(job_type="t", tenant="acme")
    for page in range(8):
        check = run.check("fetch", {"url": f"https://trap.example/{page}"})
        if check.ticket:
            run.observe(check.ticket, result=page)
    assert run.ladder.standing is Action.HALT
    url = {"url": "https://trap.example/"}
    assert guarded.run(job_type="t", tenant="other").check("fetch", url).allowed
    assert not guarded.run(job_type="t", tenant="acme").check("fetch", url).allowed


def test_what_people_block_or_stop_is_not_quarantined_for_others() -> None:
    guarded = guard(blocked=["evil.example"])
    assert fetch(Agent(guarded), "https://evil.example/") == "blocked_source"
    freed = guarded.policy.under({"blocked": []})
    run = guarded.run(job_type="t", policy=freed)
    assert run.check("fetch", {"url": "https://evil.example/"}).allowed
