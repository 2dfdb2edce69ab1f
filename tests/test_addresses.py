from __future__ import annotations

import pytest
from django.http import QueryDict

from guardops.addresses import first_page, tidy, wider, without


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("job=&q=x&outcome=halted&outcome=&outcome=failed", "q=x&outcome=halted&outcome=failed"),
        ("range=7d&from=2026-03-01&to=2026-03-02", "range=7d"),
        ("range=&from=2026-03-01&to=2026-03-02", "from=2026-03-01&to=2026-03-02"),
        ("steps_min=0", "steps_min=0"),
    ],
)
def test_parameters_that_say_nothing_go(given: str, said: str) -> None:
    assert tidy(QueryDict(given)).urlencode() == said


@pytest.mark.parametrize("place", ["after=x", "before=x", "page=3"])
def test_list_begins_again_without_its_place(place: str) -> None:
    assert first_page(QueryDict(f"job=a&{place}&sort=cost")).urlencode() == "job=a&sort=cost"


def test_wider_list_keeps_all_but_its_time() -> None:
    assert wider(QueryDict("job=a&from=2026-03-01&after=x")) == "?job=a&range=90d"
    assert wider(QueryDict("job=a&range=90d")) == ""


def test_parameters_given_are_left_as_they_are() -> None:
    params = QueryDict("job=a&job=b&q=c")
    assert without(params, "job", "none").urlencode() == "q=c"
    assert params.getlist("job") == ["a", "b"]
