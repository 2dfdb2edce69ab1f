from __future__ import annotations

from random import Random

import httpx

from guardops.guard.events import Action, Answer, Outcome, SourceKind
from guardops.guard.reasons import Reason
from guardops.guard.scenarios import research
from guardops.guard.scenarios.tarpit import MIRROR, Page

from .driving import drive


def test_the_mirror_has_always_a_next_page_and_never_a_fact(web: httpx.Client) -> None:
    url = httpx.URL(f"https://{MIRROR}/options")
    texts = set()

    for _ in range(30):
        text = web.get(url).text
        page = Page(text)
        texts.add(text)
        assert page.facts == []
        assert page.next is not None
        url = url.join(page.next)

    assert len(texts) == 30
    assert url.host == MIRROR
    assert url.params["page"] == "31"


def test_a_good_source_has_a_fact_of_its_own_and_no_next_page(web: httpx.Client) -> None:
    pages = [Page(web.get(f"https://{host}.example/").text) for host in ("atlas-1", "atlas-2")]

    assert [page.facts for page in pages] == [["atlas fact 1"], ["atlas fact 2"]]
    assert pages[0].next is None


def test_requests_keep_the_address_they_name(web: httpx.Client) -> None:
    assert str(web.get(f"https://{MIRROR}/options?page=2").url) == f"https://{MIRROR}/options?page=2"


def test_an_agent_in_the_tarpit_is_nudged_at_step_10_and_stopped_at_11(web: httpx.Client) -> None:
    driven = drive(research.falls_into_the_tarpit(Random(1), web), research.TOOLS)

    event = driven.event
    assert [(mark.step, mark.action, mark.reason) for mark in event.interventions] == [
        (10, Action.NUDGE, Reason.NO_PROGRESS),
        (11, Action.FORCE_ANSWER, Reason.NO_PROGRESS),
    ]
    assert (event.outcome, event.answer, event.halt_reason) == (
        Outcome.COMPLETED_FORCED,
        Answer.FORCED,
        Reason.NO_PROGRESS,
    )
    assert (event.steps, event.turns, event.refusals) == (11, 12, 0)
    assert event.steps < event.limits["max_steps"]


def test_the_tarpit_is_among_the_sources_and_proposed_for_the_blocklist(web: httpx.Client) -> None:
    event = drive(research.falls_into_the_tarpit(Random(1), web), research.TOOLS).event

    domains = {source.name: source for source in event.sources if source.kind is SourceKind.DOMAIN}
    assert domains[MIRROR].calls == 7
    assert domains[MIRROR].proposed
    assert len(domains) == 5
    assert not any(source.proposed for name, source in domains.items() if name != MIRROR)
