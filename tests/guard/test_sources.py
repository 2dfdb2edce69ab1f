from __future__ import annotations

from typing import Any

import pytest

from guardops.guard.events import Action
from tests.guard.agent import Agent, allowed, said


def fetch(agent: Agent, url: str, **report: Any) -> str:
    return said(agent.call("fetch", {"url": url}, report.pop("result", url), **report))


def test_all_hosts_of_a_registrable_domain_share_one_cap() -> None:
    agent = Agent(domain_cap=3)
    for host in ("a.trap.co.uk", "b.trap.co.uk", "trap.co.uk"):
        assert fetch(agent, f"https://{host}/") == "continue"
    assert fetch(agent, "https://other.co.uk/") == "continue"
    assert fetch(agent, "https://c.trap.co.uk/") == "source_cap"


def test_neighbours_on_a_shared_host_do_not_share_a_cap() -> None:
    agent = Agent(domain_cap=1)
    assert fetch(agent, "https://one.github.io/") == "continue"
    assert fetch(agent, "https://two.github.io/") == "continue"
    assert fetch(agent, "https://one.github.io/more") == "source_cap"


def test_an_address_is_counted_as_it_is() -> None:
    agent = Agent(domain_cap=1)
    assert fetch(agent, "http://10.0.0.1/a") == "continue"
    assert fetch(agent, "http://10.0.0.2/a") == "continue"
    assert fetch(agent, "http://167772161/b") == "source_cap"


def test_a_cap_of_zero_allows_no_fetch() -> None:
    assert fetch(Agent(domain_cap=0), "https://a.example/") == "source_cap"


def test_any_argument_that_is_a_url_counts_and_text_about_one_does_not() -> None:
    agent = Agent(domain_cap=1)
    assert allowed(agent.call("t", {"deep": [{"link": "https://a.example/1"}]}, "r"))
    assert allowed(agent.call("t", {"q": "what is https://a.example/"}, "r2"))
    assert said(agent.check("t", {"x": {"y": "https://a.example/2"}})) == "source_cap"


def test_the_eleventh_page_of_a_listing_is_refused() -> None:
    agent = Agent()
    for page in range(10):
        assert fetch(agent, f"https://shop.example/list?page={page}&sort=asc") == "continue"
    assert fetch(agent, "https://shop.example/list?sort=asc&page=11") == "listing_cap"
    assert fetch(agent, "https://shop.example/list?sort=desc&page=1") == "continue"


def test_page_keys_beside_the_url_count_as_pages_too() -> None:
    agent = Agent(listing_cap=2)
    for page in range(2):
        assert allowed(agent.call("fetch", {"url": "https://shop.example/list", "offset": page}, page))
    assert said(agent.check("fetch", {"url": "https://shop.example/list", "offset": 2})) == "listing_cap"


def test_one_address_with_many_bodies_is_no_listing() -> None:
    agent = Agent(listing_cap=2)
    for number in range(6):
        assert allowed(agent.call("post", {"url": "https://api.example/graphql", "body": number}, number))


def test_the_same_page_again_is_not_another_page() -> None:
    agent = Agent(listing_cap=2, max_repeats=5)
    for _ in range(4):
        assert fetch(agent, "https://shop.example/list?page=1") == "continue"


def test_a_redirect_counts_for_its_target() -> None:
    agent = Agent(domain_cap=2)
    for number in range(2):
        assert (
            fetch(agent, f"https://short{number}.example/", redirects=["https://trap.example/x"])
            == "continue"
        )
    assert fetch(agent, "https://short9.example/", redirects=["https://trap.example/y"]) == "source_cap"


def test_a_redirect_that_the_result_names_counts_too() -> None:
    agent = Agent(domain_cap=1)
    result = {"final_url": "https://trap.example/x", "text": "t"}
    assert fetch(agent, "https://a.example/", result=result) == "continue"
    assert fetch(agent, "https://b.example/", result=result | {"text": "u"}) == "source_cap"


def test_a_location_is_a_redirect_only_beside_its_status() -> None:
    agent = Agent(blocked=["meet.example"])
    event = {"location": "https://meet.example/room", "status": "confirmed"}
    assert fetch(agent, "https://a.example/", result=event) == "continue"
    assert fetch(agent, "https://b.example/", result=event | {"status": 302}) == "blocked_source"


def test_a_redirect_within_the_domain_is_not_counted_twice() -> None:
    agent = Agent(domain_cap=2)
    assert fetch(agent, "https://a.example/", redirects=["https://www.a.example/"]) == "continue"
    assert fetch(agent, "https://a.example/2") == "continue"


def test_a_blocked_domain_and_all_below_it_halt_the_run() -> None:
    agent = Agent(blocked=["evil.example"])
    assert fetch(agent, "https://notevil.example/") == "continue"
    answer = agent.call("fetch", {"url": "https://sub.evil.example/"}, "r")
    assert (answer.action, said(answer)) == (Action.HALT, "blocked_source")


def test_a_redirect_to_a_blocked_domain_halts_the_run() -> None:
    agent = Agent(blocked=["evil.example"])
    assert fetch(agent, "https://a.example/", redirects=["https://evil.example/"]) == "blocked_source"


def test_a_blocked_tool_is_refused() -> None:
    agent = Agent(blocked=[{"kind": "tool", "name": "exec"}])
    assert allowed(agent.call("read", {}, "r"))
    assert said(agent.check("exec")) == "blocked_source"


@pytest.mark.parametrize("kind", ["domain", "tool"])
def test_a_limited_source_may_be_called_so_often(kind: str) -> None:
    name = "evil.example" if kind == "domain" else "fetch"
    agent = Agent(blocked=[{"kind": kind, "name": name, "action": "limit", "limit": 2}])
    for number in range(2):
        assert fetch(agent, f"https://evil.example/{number}") == "continue"
    assert fetch(agent, "https://evil.example/3") == "blocked_source"


def test_sources_are_named_with_calls_and_bytes_and_the_tripped_one_is_proposed() -> None:
    agent = Agent(domain_cap=2)
    for number in range(2):
        fetch(agent, f"https://trap.example/{number}", result="12345")
    fetch(agent, "https://good.example/", result="12")
    fetch(agent, "https://trap.example/3")
    named = {source.name: source for source in agent.run.end().sources}
    assert (named["trap.example"].calls, named["trap.example"].bytes) == (2, 10)
    assert named["trap.example"].proposed
    assert not named["good.example"].proposed
    assert named["fetch"].calls == 3
    assert not named["trap.example"].quarantined
