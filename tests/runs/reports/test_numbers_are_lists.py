"""Every number on the overview leads to its rows: as many as it says, of the amount, the share and the steps.

Links are found in the page itself, so a number that is added later is checked, or refused as unknown.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from guardops import shown
from guardops.tenants.access import Visible, visible
from guardops.tenants.models import Tenant, User
from runs.filters import RunFilter
from runs.models import Run
from runs.pages.list import read_listing
from runs.pages.live import read_live_list
from runs.reports.asked import tenant_ids_of
from runs.reports.percentiles import nearest_rank
from tests.factories import make_member, make_operator, make_organisation, make_tenant
from tests.runs.live_rows import insert_live
from tests.runs.reports.test_pages import Links, signed_in
from tests.runs.rows import fold, insert_rows, make_row, random_rows

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Cast:
    """Two tenants of one organisation and one of another, with runs; half of them folded."""

    tenants: Sequence[Tenant]
    now: datetime
    people: Mapping[str, User]


@pytest.fixture
def cast() -> Cast:
    organisation, now = make_organisation("acme"), datetime.now(UTC)
    tenants = [
        make_tenant("acme-a", organisation=organisation),
        make_tenant("acme-b", organisation=organisation),
        make_tenant("globex"),
    ]
    # First and later attempts, children, what providers ended, and a job whose name needs quoting.
    for seed, age in ((1, timedelta(hours=23)), (2, timedelta(hours=1))):
        rows = random_rows(random.Random(seed), 150, now - age, now)
        rows += [make_row(now - age / 2, tenant_id=1, job_type="a&b=c #1", release="r+1", steps=38)]
        insert_rows(row | {"tenant_id": tenants[row["tenant_id"] - 1].pk} for row in rows)
        if seed == 1:
            fold(now)
    people = {
        "viewer": make_member(tenants[0]),
        "member": make_member(organisation),
        "operator": make_operator(),
    }
    return Cast(tenants, now, people)


PAGES = {
    "day": ("operator", ""),
    "tables": ("member", "range=6h&halts=table&steps=table"),
    "own-tenant": ("viewer", "range=1h&halts=table"),
    "one-job": ("operator", "range=6h&tenant=globex&job=coding&steps_job=coding&steps_unit=turn"),
    "job-and-release": ("member", "range=7d&tenant=acme-b&job=support&release=r1&steps=table"),
    "name-to-quote": ("operator", "range=1h&job=a%26b%3Dc+%231&release=r%2B1"),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_number_is_that_of_its_list(cast: Cast, name: str) -> None:
    who, query = PAGES[name]
    html = signed_in(cast.people[who]).get(f"/?{query}").content.decode()
    links = [(href, plain(text)) for href, text in Links(html).found if href.startswith("/runs/?")]
    claims = sorted(set(links))
    lists = Lists(visible(cast.people[who]), cast.now)
    whole = next(
        href for href, _ in links if not set(QueryDict(href[7:])) - _SCOPE
    )  # the tile's, not a release's
    wrong = [
        f"{text!r} leads to {len(lists.rows(href))} runs: {href}"
        for href, text in claims
        if not holds(text, href, lists, lists.rows(whole))
    ]

    assert len(claims) > 20
    assert wrong == []
    start, end = (QueryDict(whole[7:])[name] for name in ("from", "to"))
    for href in {href for href, _ in claims if f"from={start}&to={end}" in href}:  # not those of single bars
        assert lists.total(href) == len(lists.rows(href)), href


_SCOPE = {"from", "to", "tenant", "job", "release"}


class Lists:
    """The lists that links lead to, as the person sees them."""

    def __init__(self, seen: Visible, now: datetime) -> None:
        self.seen, self.now = seen, now
        self._rows: dict[str, list[Run]] = {}

    def rows(self, href: str) -> list[Run]:
        """Return all rows of a list."""
        if href not in self._rows:
            params = QueryDict(href.partition("?")[2])
            tenants = tenant_ids_of(params.get("tenant", ""), self.seen)
            chosen = RunFilter(params, Run.objects.for_tenants(tenants), now=self.now)
            assert [*chosen.form.errors, *chosen.form.ignored] == [], href
            self._rows[href] = list(chosen.qs.without_detail())
        return self._rows[href]

    def total(self, href: str) -> int:
        """Return the number that stands above the list where it takes more than one page."""
        params = QueryDict(href.partition("?")[2] + "&size=1")
        total = read_listing(self.seen, params, now=self.now, zone="UTC").total
        assert total.exact, href
        return total.number


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\xa0", " "))


def holds(text: str, href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    """Say whether what a link's text claims is true of its list; no text is left unread."""
    rows = lists.rows(href)
    for pattern, claim in _CLAIMS:
        if found := pattern.fullmatch(text):
            return claim(found, href, lists, whole)
    raise AssertionError(f"nobody knows what {text!r} says of {len(rows)} runs: {href}")


Claim = Callable[[re.Match[str], str, Lists, Sequence[Run]], bool]


def counts(found: re.Match[str], href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    return int(found[1].replace(",", "")) == len(lists.rows(href))


def duplicates(found: re.Match[str], href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    return int(found[1].replace(",", "")) == sum(run.duplicates for run in lists.rows(href))


def mean_duplicates(found: re.Match[str], href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    return found[0] == shown.number(sum(run.duplicates for run in lists.rows(href)) / len(whole))


def amount(found: re.Match[str], href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    rows = lists.rows(href)
    if "completes" in QueryDict(href[7:]):  # each of these tasks has its part of what all runs cost
        return found[0] == plain(shown.money(cost(whole) / len(rows)))
    return found[0] == plain(shown.money(cost(rows)))


def cost_share(found: re.Match[str], href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    return found[1] == plain(shown.share(float(cost(lists.rows(href)) / cost(whole))))


def share(found: re.Match[str], href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    """Check a share of runs; the loop rate leaves out what providers ended, near the cap counts tasks."""
    asked, among = QueryDict(href[7:]), len(whole)
    if "looped" in asked:
        among -= sum(run.provider_failure for run in whole)
    if "near_cap" in asked:
        among = len(lists.rows(href.replace("&near_cap=1", "")))
    return found[0] == plain(shown.share(len(lists.rows(href)) / among))


def steps(found: re.Match[str], href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    taken = [run.steps for run in lists.rows(href)]
    histogram = {value: taken.count(value) for value in taken}
    said = (int(found["max"]), int(found["p95"]), int(found["p50"]))
    return said == (max(taken), nearest_rank(histogram, 95), nearest_rank(histogram, 50))


def nothing(found: re.Match[str], href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    return not lists.rows(href)


def no_number(found: re.Match[str], href: str, lists: Lists, whole: Sequence[Run]) -> bool:
    return True


_TIME = r"(?:\d+ \w+ )?\d\d:\d\d–(?:\d+ \w+ )?\d\d:\d\d UTC|\d+ \w+(?: \d\d:\d\d)?(?:–[\w :]+)?(?: UTC)?"
_CLAIMS: list[tuple[re.Pattern[str], Claim]] = [
    (re.compile(pattern), claim)
    for pattern, claim in (
        (r"([\d,]+)", counts),
        (r"([\d,]+) (?:runs?|provider failures?|stopped by a guard)", counts),
        (r"of ([\d,]+) tasks?", counts),
        (rf"(?:{_TIME}): (?:[A-Z][a-z ]+ )?([\d,]+)(?: halts?)?", counts),
        (r"([\d,]+) in all", duplicates),
        (r"[\d,]+\.\d\d", mean_duplicates),
        (r"\$[\d,.]+", amount),
        (r"((?:[<>] )?[\d.]+ %) of all cost", cost_share),
        (r"(?:[<>] )?[\d.]+ %", share),
        (rf"(?:{_TIME}): max (?P<max>\d+), p95 (?P<p95>\d+), p50 (?P<p50>\d+)", steps),
        (rf"(?:{_TIME}): none", nothing),
        (rf"(?:{_TIME})(?:: in part, so not drawn)?", no_number),
        (r"[a-z][\w ,’'-]*? ([\d,]+)", counts),  # a halt that is new in a release
    )
]


def cost(runs: Sequence[Run]) -> Decimal:
    return sum((run.cost for run in runs), Decimal(0))


@pytest.mark.parametrize("query", ["", "tenant=acme-a&job=coding&release=r2"])
def test_every_number_of_what_is_live_is_that_of_its_list(cast: Cast, query: str) -> None:
    rng = random.Random(5)
    for _ in range(40):
        insert_live(
            rng.choice(cast.tenants),
            job_type=rng.choice(("research", "coding")),
            release=rng.choice(("", "r2")),
            pressure=rng.choice((0, 79, 80, 130)),
            pressure_limit=rng.choice(("max_steps", "max_cost")),
            last_at=datetime.now(UTC) - timedelta(minutes=rng.choice((0, 1, 9))),
        )
    seen = visible(cast.people["member"])
    html = signed_in(cast.people["member"]).get(f"/?{query}").content.decode()
    claims = {
        href: int(said[0])
        for href, text in Links(html).found
        if href.startswith("/runs/live/") and (said := re.search(r"\b\d+\b(?! %)", text))
    }

    assert len(claims) >= 3
    for href, number in claims.items():
        found = read_live_list(seen, QueryDict(href.partition("?")[2]), datetime.now(UTC))
        assert found.total == number, href


def test_numbers_of_two_tenants_add_up_to_those_of_both(cast: Cast) -> None:
    browser: Client = signed_in(cast.people["member"])

    def tiles(query: str) -> dict[str, Any]:
        return {tile.name: tile.value for tile in browser.get(f"/?{query}").context["tiles"].tiles}

    one, other, both = (tiles(query) for query in ("tenant=acme-a", "tenant=acme-b", ""))
    for name in ("Runs", "Completed tasks"):
        assert int(one[name]) + int(other[name]) == int(both[name])
