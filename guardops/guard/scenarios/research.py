"""Scripted research agents: they search, read pages and collect facts; progress is a new fact."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from urllib.parse import urljoin

import httpx

from guardops.guard.events import Action, Outcome
from guardops.guard.scenarios.script import Move, Script, Seen, Turn, calls
from guardops.guard.scenarios.tarpit import MIRROR, Page

JOB = "research"
AGENT = "scout"
TOOLS: dict[str, dict[str, object]] = {"web_search": {"external": True}, "fetch": {"external": True}}

_TOPICS = ("battery recycling", "tidal power", "seed banks", "rail freight", "peat restoration", "heat pumps")
PLACES = ("archive", "journal", "gazette", "atlas", "almanac", "bulletin", "survey", "library")
_WORDINGS = (
    "{} figures",
    "{} statistics",
    "latest {} data",
    "{} numbers by year",
    "how much {}",
    "{} overview",
)
_GOOD_SOURCES = 4


def _search(topic: str, wording: int) -> Turn:
    query = _WORDINGS[wording % len(_WORDINGS)].format(topic)
    return calls("web_search", {"query": query}, f"8 results for {query}", progressed=wording == 0)


def _read(rng: Random, number: int) -> Turn:
    url = f"https://{rng.choice(PLACES)}-{rng.randrange(40)}.example/{number}"
    return calls(
        "fetch", {"url": url}, "x" * rng.randrange(800, 6_000), progressed=True, seconds=rng.uniform(0.3, 2.5)
    )


def finds_facts(rng: Random) -> Script:
    """Search, read a handful of sources, answer; now and then a link is dead."""
    yield _search(rng.choice(_TOPICS), 0)
    for number in range(rng.randrange(3, 11)):
        if rng.random() < 0.06:
            yield calls(
                "fetch", {"url": f"https://gone-{number}.example/"}, error={"status": 404}, progressed=False
            )
        yield _read(rng, number)
    yield Turn()
    return Outcome.COMPLETED if rng.random() < 0.94 else Outcome.FAILED


def rewords_its_search(rng: Random) -> Script:
    """Ask the same thing in other words for ever: results differ, nothing is learnt."""
    topic = rng.choice(_TOPICS)
    yield _read(rng, 0)
    for wording in range(1, 60):
        yield _search(topic, wording) if wording < len(_WORDINGS) else _search(f"{topic} {wording}", wording)
    return Outcome.FAILED


def heeds_the_nudge(rng: Random) -> Script:
    """Reword the search until the guard nudges, then go and read sources instead."""
    topic = rng.choice(_TOPICS)
    for wording in range(1, 20):
        heard = yield _search(f"{topic} {wording}", wording)
        if heard.action is Action.NUDGE:
            break
    for number in range(rng.randrange(2, 5)):
        yield _read(rng, number)
    yield Turn()
    return Outcome.COMPLETED


def rechecks_two_sources(rng: Random) -> Script:
    """Two sources disagree; read one, then the other, again and again."""
    yield _read(rng, 0)
    yield from _to_and_fro(rng)
    return Outcome.FAILED


def _to_and_fro(rng: Random) -> Iterator[Turn]:
    pair = [f"https://{place}-{rng.randrange(40)}.example/claim" for place in rng.sample(PLACES, 2)]
    for step in range(60):
        url = pair[step % 2]
        yield calls("fetch", {"url": url}, f"{url} says otherwise", seconds=rng.uniform(0.3, 1.5))


def goes_from_bad_to_worse(rng: Random) -> Script:
    """Heed the nudge against rewording, read, and then go to and fro between two sources."""
    topic = rng.choice(_TOPICS)
    for wording in range(1, 20):
        heard = yield _search(f"{topic} {wording}", wording)
        if heard.action is Action.NUDGE:
            break
    yield _read(rng, 0)
    yield from _to_and_fro(rng)
    return Outcome.FAILED


def verifies_for_ever(rng: Random) -> Script:
    """Every second opinion differs from the first, so that another one is asked for: nothing gets settled."""
    claim = f"{rng.choice(_TOPICS)} {rng.randrange(1_990, 2_030)}"
    yield _read(rng, 0)
    for number in range(60):
        source = f"{rng.choice(PLACES)}-{number}.example"
        yield calls(
            "verify",
            {"claim": claim, "against": source},
            f"{source} disagrees, check again",
            progressed=False,
            seconds=rng.uniform(0.5, 2.0),
        )
    return Outcome.FAILED


def clings_to_one_site(rng: Random) -> Script:
    """Read page after page of one good site, each with something new, until its cap."""
    site = f"https://{rng.choice(PLACES)}-{rng.randrange(40)}.example"
    for number in range(60):
        yield calls("fetch", {"url": f"{site}/entry/{number}"}, f"entry {number}", progressed=True)
    return Outcome.COMPLETED


def turns_every_page(rng: Random) -> Script:
    """Follow a listing's next link; every page has something new on it, until the listing's cap."""
    listing = f"https://{rng.choice(PLACES)}-{rng.randrange(40)}.example/list"
    for page in range(1, 60):
        yield calls("fetch", {"url": f"{listing}?page={page}"}, f"page {page}", progressed=True)
    return Outcome.COMPLETED


def falls_into_the_tarpit(rng: Random, client: httpx.Client) -> Script:
    """Read four good sources, then follow the mirror's next links; ``client`` really fetches the pages."""
    facts: set[str] = set()
    for place in rng.sample(PLACES, _GOOD_SOURCES):
        yield Turn((_fetch(client, f"https://{place}-{rng.randrange(40)}.example/", facts, []),))
    links = [f"https://{MIRROR}/{rng.choice(_TOPICS).replace(' ', '-')}"]
    while True:
        yield Turn((_fetch(client, links[-1], facts, links),))


def _fetch(client: httpx.Client, url: str, facts: set[str], links: list[str]) -> Move:
    """Return the call that fetches ``url``; progress is a fact that is not among ``facts`` yet.

    The page's facts and its next link are added to ``facts`` and ``links``.
    """

    def act() -> Seen:
        response = client.get(url)
        page = Page(response.text)
        learnt = set(page.facts) - facts
        facts.update(learnt)
        if page.next:
            links.append(urljoin(url, page.next))
        return Seen(result=response.text, progressed=bool(learnt), seconds=0.8, characters=len(response.text))

    return Move("fetch", {"url": url}, act)
