from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from re import findall
from typing import Any
from urllib.parse import quote_from_bytes, urlencode
from uuid import UUID

import pytest
from django.db import OperationalError
from django.http import QueryDict
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.errors import QueryCanceled

from guardops.tenants.access import visible
from guardops.tenants.actors import SYSTEM
from policies.limits import LIMITS
from policies.publish.policies import Place, save_policy
from runs.advisor import replaying
from runs.pages.list import read_listing
from tests.runs.pages.conftest import Cast
from tests.runs.rows import insert_rows, make_row

FRAGMENT = {"HX-Request": "true"}
HERE = "tenant=research&job=research"


def store(cast: Cast, now: datetime, *runs: dict[str, Any]) -> None:
    insert_rows(
        make_row(now - timedelta(minutes=number + 1), **{"tenant_id": cast.tenant.pk, **columns})
        for number, columns in enumerate(runs)
    )


def publish(cast: Cast, now: datetime, document: dict[str, Any], *, tenant: bool, job_type: str = "") -> None:
    place = Place(cast.tenant.organisation, cast.tenant if tenant else None, job_type)
    save_policy(place, document, seen=0, actor=SYSTEM, now=now)


def ask(browser: Client, query: str) -> Any:
    response = browser.get(f"/runs/policy-replay/?{query}", headers=FRAGMENT)
    assert response.status_code == 200
    return response


def tally(browser: Client, query: str) -> Any:
    return ask(browser, query).context["tally"]


def ids_of(response: Any) -> list[UUID]:
    return [row.run.run_id for row in (*response.context["runs"], *response.context["more_runs"])]


HALTED = {"outcome": "halted", "answer": "none", "halt_reason": "step_budget", "steps": 40}
FAILED = {"outcome": "failed", "answer": "none"}


def test_tighter_cap_stops_what_completed_and_failed_and_what_was_stopped_sooner(
    cast: Cast, viewer: Client, now: datetime
) -> None:
    store(cast, now, {"steps": 30}, {"steps": 27}, {**FAILED, "steps": 28}, HALTED)
    found = tally(viewer, f"{HERE}&max_steps=28")
    assert (found.runs, found.stopped, found.false_stops, found.failed, found.sooner) == (4, 2, 1, 1, 1)


def test_money_saved_follows_the_square_of_the_steps(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, {**HALTED, "cost": Decimal(82)})
    found = tally(viewer, f"{HERE}&max_steps=20")
    assert found.saved.quantize(Decimal("0.0001")) == Decimal(82) * (1 - Decimal(420) / 1640)


def test_looser_cap_stops_no_longer(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, HALTED, {**HALTED, "halt_reason": "cycle_period_2"})
    found = tally(viewer, f"{HERE}&max_steps=60")
    assert (found.stopped, found.no_longer, found.saved) == (0, 1, 0)
    assert "looser caps save nothing" in ask(viewer, f"{HERE}&max_steps=60").text


def test_cap_without_a_price_saves_a_dash(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, {"peak_domain_calls": 9})
    response = ask(viewer, f"{HERE}&domain_cap=8")
    assert [(row.tally.false_stops, row.saved) for row in response.context["caps"]] == [(1, None)]
    assert [row.saved for row in response.context["runs"]] == [None]


def test_completed_runs_are_listed_first_as_false_stops(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, {**FAILED, "steps": 30}, {"steps": 31}, HALTED, {"steps": 32})
    listed = ask(viewer, f"{HERE}&max_steps=28").context["runs"]
    assert [row.run.steps for row in listed] == [31, 32, 30]
    assert [row.counted for row in listed] == ["31", "32", "30"]


def test_fifty_are_listed_and_the_rest_counted_with_a_link_to_all(
    cast: Cast, viewer: Client, now: datetime
) -> None:
    store(cast, now, *[{"steps": 30}] * 53, {**FAILED, "steps": 30})
    response = ask(viewer, f"{HERE}&max_steps=28")
    shown, more = response.context["runs"], response.context["more_runs"]
    assert (len(shown), len(more), response.context["unlisted"]) == (10, 40, 4)
    assert "All false stops" in response.text


def test_every_linked_number_is_that_of_its_list(cast: Cast, viewer: Client, now: datetime) -> None:
    store(cast, now, *[{"steps": n} for n in range(20, 45)], {"steps": 30, "step_unit": "turn"}, HALTED)
    store(cast, now, {"steps": 30, "job_type": "coding"}, {"steps": 30, "tenant_id": cast.sibling.pk})
    page = ask(viewer, f"{HERE}&max_steps=28").text
    links = findall(r'<a (?:class="n" )?href="/runs/\?([^"]+)">([\d,]+)</a>', page)
    assert [number for _, number in links] == ["27", "12", "26"]
    for query, number in links:
        params = QueryDict(unescape(query))
        listing = read_listing(visible(cast.viewer), params, now=datetime.now(UTC), zone="UTC")
        assert listing.total.number == int(number)


def test_policy_further_down_keeps_its_runs_out(cast: Cast, viewer: Client, now: datetime) -> None:
    publish(cast, now, {"limits": {"max_steps": 35}}, tenant=True, job_type="coding")
    store(cast, now, {"steps": 30}, {"steps": 30, "job_type": "coding"}, {"steps": 30, "job_type": "ops"})
    found = tally(viewer, "tenant=research&max_steps=28")
    assert (found.runs, found.false_stops) == (2, 2)


def test_tenants_that_say_otherwise_are_left_out(cast: Cast, client: Client, now: datetime) -> None:
    client.force_login(cast.member)
    publish(cast, now, {"limits": {"max_steps": 30}}, tenant=False)
    publish(cast, now, {"limits": {"max_steps": 30}}, tenant=True)
    store(cast, now, *[{"steps": 25, "tenant_id": t.pk} for t in (cast.tenant, cast.sibling, cast.foreign)])
    found = tally(client, "organisation=acme&max_steps=20")
    assert (found.runs, found.false_stops) == (1, 1)


def test_limit_left_empty_is_what_is_inherited(cast: Cast, viewer: Client, now: datetime) -> None:
    publish(cast, now, {"limits": {"max_steps": 20}}, tenant=False)
    publish(cast, now, {"limits": {"max_steps": 60}}, tenant=True)
    store(cast, now, {"steps": 50})
    assert tally(viewer, "tenant=research&max_steps=").false_stops == 1


def test_enforcing_what_was_in_shadow_stops_what_meets_the_other_caps(
    cast: Cast, viewer: Client, now: datetime
) -> None:
    publish(cast, now, {"mode": "shadow", "limits": {"stall_limit": 4}}, tenant=True, job_type="research")
    store(cast, now, {"peak_stall": 4}, {"steps": 40})
    found = tally(viewer, f"{HERE}&mode=enforce&stall_limit=4")
    assert (found.stopped, found.caps["stall_limit"].false_stops) == (1, 1)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "No limit is typed yet"),
        ("max_steps=40", "Nothing to replay"),
        ("hops=2", "told from past runs"),
        ("max_steps=501", "must lie between 0 and 500"),
        ("max_steps=many", "Write a number"),
        ("max_steps=28", "No run would be newly stopped"),
    ],
)
def test_each_empty_replay_says_why(cast: Cast, viewer: Client, typed: str, words: str) -> None:
    assert words in ask(viewer, f"{HERE}&{typed}").text


def test_a_week_or_thirty_days_are_replayed(cast: Cast, viewer: Client, now: datetime) -> None:
    for age in (1, 8, 31):
        insert_rows([make_row(now - timedelta(days=age), tenant_id=cast.tenant.pk, steps=30)])
    assert [tally(viewer, f"{HERE}&max_steps=28&days={days}").runs for days in (7, 30)] == [1, 2]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every day of a replay takes the whole time of an answer."""
    monkeypatch.setattr(replaying, "BUDGET_S", 0.0)


def test_long_replay_answers_day_by_day_and_comes_to_the_same(
    cast: Cast, viewer: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_rows(
        make_row(now - timedelta(hours=7 * n + 1), tenant_id=cast.tenant.pk, steps=20 + n) for n in range(20)
    )
    at_once = ask(viewer, f"{HERE}&max_steps=28")
    monkeypatch.setattr(replaying, "BUDGET_S", 0.0)
    response, answers = ask(viewer, f"{HERE}&max_steps=28"), 1
    while response.context["state"] == "counting":
        assert f'<progress max="7" value="{answers}"' in response.text
        assert response.text.count(response.context["next"].replace("&", "&amp;")) == 2  # of htmx, and a link
        response = ask(viewer, response.context["next"].partition("?")[2])
        answers += 1
    assert answers == 7
    assert response.context["tally"] == at_once.context["tally"]
    assert ids_of(response) == ids_of(at_once)


def test_what_one_reader_has_counted_is_nobody_elses(
    cast: Cast, client: Client, now: datetime, slow: None
) -> None:
    store(cast, now, {"steps": 30}, {"steps": 30, "tenant_id": cast.sibling.pk})
    client.force_login(cast.member)
    there = ask(client, "organisation=acme&job=research&max_steps=28").context["next"].partition("?")[2]
    client.force_login(cast.viewer)
    response = ask(client, there)
    assert (response.context["replaying"].done, response.context["tally"].runs) == (1, 1)


@pytest.mark.parametrize("query", ["tenant=elsewhere", "organisation=nowhere", "", "tenant=support"])
def test_place_that_is_not_the_readers_is_not_found(viewer: Client, query: str) -> None:
    assert viewer.get(f"/runs/policy-replay/?{query}&max_steps=3").status_code == 404


def test_question_that_took_too_long_is_said(
    cast: Cast, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def canceled(*_: object) -> None:
        raise OperationalError from QueryCanceled()

    monkeypatch.setattr(replaying, "count_fates", canceled)
    assert "took the database too long" in ask(viewer, f"{HERE}&max_steps=3").text
    assert viewer.get(f"/runs/policy-replay/?{HERE}&max_steps=3").status_code == 503


NAMES = ["tenant", "organisation", "job", "place", "days", "from", "mode", *LIMITS]
VALUES = st.one_of(
    st.text(max_size=30),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(["research", "acme", "1e5000", "NaN", "1" * 5_000, "٣", "\0", "⟦U+D800⟧", "0", "30"]),
)
FUZZED = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


@FUZZED
@given(pairs=st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=4), known=st.booleans())
def test_both_answer_any_parameters(viewer: Client, pairs: list[tuple[str, str]], known: bool) -> None:
    query = urlencode([("tenant", "research"), *pairs] if known else pairs, errors="surrogatepass")
    for page in ("advisor", "policy-replay"):
        assert viewer.get(f"/runs/{page}/?{query}").status_code in {200, 404}


@FUZZED
@given(token=st.binary(max_size=60))
def test_any_token_begins_anew(viewer: Client, token: bytes) -> None:
    query = f"{HERE}&max_steps=3&from={quote_from_bytes(token)}"
    assert viewer.get(f"/runs/policy-replay/?{query}").status_code == 200
