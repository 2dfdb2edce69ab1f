from __future__ import annotations

from datetime import timedelta

from guardops.tenants.cache import ShortCache
from tests.factories import NOW

SECOND = timedelta(seconds=1)


def cache(size: int = 2) -> ShortCache[str]:
    return ShortCache(size=size, age=5 * SECOND)


def test_an_answer_lives_for_its_age_and_no_longer() -> None:
    answers = cache()
    answers.put(b"k", "v", NOW)
    assert answers.get(b"k", NOW + 4.999 * SECOND) == "v"
    assert answers.get(b"k", NOW + 5 * SECOND) is None


def test_an_answer_from_the_future_does_not_count() -> None:
    answers = cache()
    answers.put(b"k", "v", NOW)
    assert answers.get(b"k", NOW - SECOND) is None


def test_the_oldest_answer_makes_room() -> None:
    answers = cache(size=2)
    for key in (b"a", b"b"):
        answers.put(key, "v", NOW)
    answers.put(b"a", "again", NOW)
    answers.put(b"c", "v", NOW)
    assert [answers.get(key, NOW) for key in (b"a", b"b", b"c")] == ["again", None, "v"]
    assert len(answers) == 2


def test_a_cleared_memory_holds_nothing() -> None:
    answers = cache()
    answers.put(b"k", "v", NOW)
    answers.clear()
    assert (len(answers), answers.get(b"k", NOW)) == (0, None)
