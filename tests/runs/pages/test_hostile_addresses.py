"""Addresses that nobody would write by hand: whatever they hold, the page answers with words, never a 500."""

from __future__ import annotations

from urllib.parse import quote_from_bytes, urlencode

import pytest
from django.test import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runs.checkpoints.filters import QueueForm
from runs.filters import RunFilter
from tests.runs.pages.conftest import Cast
from tests.runs.rows import insert_rows, make_row

NAMES = [*RunFilter.base_filters, "bogus", ""]
TIMES = ["2026-11-29T03:15Z", "0001-01-01", "9999-12-31T23:59:59+14:00", "20000-01-01"]
NUMBERS = ["1", "0", "1e5000", "NaN", "1" * 5_000, "٣"]
WORDS = ["-at", "cost", "other", "90d", "\0", "⟦U+0000⟧", "⟦U+D800⟧", "%", "_", "\\"]
VALUES = st.one_of(
    st.text(max_size=40),
    st.integers(min_value=-(10**25), max_value=10**25).map(str),
    st.sampled_from([*TIMES, *NUMBERS, *WORDS]),
)
FUZZED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
FEW = settings(FUZZED, max_examples=60)


@pytest.fixture
def browser(cast: Cast, client: Client, now: object) -> Client:
    insert_rows([make_row(now, tenant_id=cast.tenant.pk, step_cap=None)])  # type: ignore[arg-type]
    client.force_login(cast.member)
    return client


@FUZZED
@given(pairs=st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=4))
def test_list_answers_any_parameters(browser: Client, pairs: list[tuple[str, str]]) -> None:
    query = urlencode(pairs, errors="surrogatepass")
    assert browser.get(f"/runs/?{query}", follow=True).status_code in {200, 404}


@FUZZED
@given(query=st.binary(max_size=60))
def test_list_answers_any_bytes(browser: Client, query: bytes) -> None:
    assert browser.get(f"/runs/?{quote_from_bytes(query, safe='=&%+;')}", follow=True).status_code in {
        200,
        404,
    }


@FUZZED
@given(tenant=st.text(max_size=20))
def test_run_answers_any_tenant(browser: Client, tenant: str) -> None:
    query = urlencode({"tenant": tenant}, errors="surrogatepass")
    assert browser.get(f"/runs/01a22bef-aea0-713e-9737-56a84aff863e/?{query}").status_code == 404


@FEW
@given(pairs=st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=4))
def test_file_answers_any_parameters(browser: Client, pairs: list[tuple[str, str]]) -> None:
    response = browser.get(f"/runs/export.csv?{urlencode(pairs, errors='surrogatepass')}")
    assert response.status_code in {200, 400, 404}
    if response.streaming:
        assert b"Not complete" not in b"".join(response.streaming_content)  # type: ignore[attr-defined]


QUEUE_NAMES = [*QueueForm.base_fields, *QueueForm.BESIDE, "bogus"]


@FEW
@given(
    path=st.sampled_from(["", "new/", "export.csv"]),
    pairs=st.lists(st.tuples(st.sampled_from(QUEUE_NAMES), VALUES), max_size=4),
)
def test_queue_answers_any_parameters(browser: Client, path: str, pairs: list[tuple[str, str]]) -> None:
    response = browser.get(f"/review/{path}?{urlencode(pairs, errors='surrogatepass')}", follow=True)
    assert response.status_code in {200, 400, 404}
    if response.streaming:
        assert b"Not complete" not in b"".join(response.streaming_content)  # type: ignore[attr-defined]


@FEW
@given(
    page=st.sampled_from(["runs", "live", "review"]),
    name=st.text(max_size=70),
    query=st.one_of(
        st.binary(max_size=60).map(lambda query: quote_from_bytes(query, safe="=&%+;")),
        st.lists(st.tuples(st.sampled_from(NAMES), VALUES), max_size=4).map(
            lambda pairs: urlencode(pairs, errors="surrogatepass")
        ),
        st.text(max_size=60),
    ),
)
def test_view_of_any_name_and_query_is_saved_or_refused(
    browser: Client, page: str, name: str, query: str
) -> None:
    form = urlencode({"name": name, "query": query}, errors="surrogatepass")
    kind = "application/x-www-form-urlencoded"
    saved = browser.post(f"/views/{page}/", form, content_type=kind)
    assert saved.status_code in {200, 302}
    if saved.status_code == 302:
        opened = browser.get(saved["Location"]).content.decode()
        assert "cannot be read" not in opened
    assert browser.get(f"/views/{page}/").status_code == 200
