from __future__ import annotations

import time
from uuid import UUID

import pytest

from guardops.guard.ids import MAX_MS, lowest_id, new_uuid7, uuid7, uuid7_ms


@pytest.mark.parametrize("random", [0, 1, 2**74 - 1, 0x2AA_AAAA_AAAA_AAAA_AAAA])
@pytest.mark.parametrize("ms", [0, 1_772_000_000_123, MAX_MS])
def test_id_holds_its_time_version_and_variant(ms: int, random: int) -> None:
    made = uuid7(ms, random)
    assert (uuid7_ms(made), made.version, made.variant) == (ms, 7, "specified in RFC 4122")


def test_example_of_the_standard_is_made() -> None:
    random = 0xCC3 << 62 | 0x18C4DC0C0C07398F
    assert uuid7(0x017F22E279B0, random) == UUID("017F22E2-79B0-7CC3-98C4-DC0C0C07398F")


@pytest.mark.parametrize("ms", [-1, MAX_MS + 1])
def test_time_that_no_id_holds_is_refused(ms: int) -> None:
    with pytest.raises(ValueError):
        uuid7(ms, 0)


def test_ids_sort_by_time_between_the_bounds_of_their_millisecond() -> None:
    assert lowest_id(5) < uuid7(5, 0) < uuid7(5, 2**74 - 1) < lowest_id(6)


def test_new_id_is_of_now_and_no_other() -> None:
    before = time.time_ns() // 1_000_000
    made = {new_uuid7() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(before <= uuid7_ms(found) <= time.time_ns() // 1_000_000 for found in made)
