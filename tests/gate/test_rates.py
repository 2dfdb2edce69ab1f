from guardops.gate.rates import MAX_KEYS, Rates


def test_burst_is_taken_and_what_exceeds_it_waits() -> None:
    rates = Rates(per_second=10)
    assert rates.take(1, 100, now=0.0) == 0
    assert rates.take(1, 5, now=0.0) == 0.5


def test_bucket_fills_with_time_and_no_further_than_the_burst() -> None:
    rates = Rates(per_second=10)
    rates.take(1, 100, now=0.0)
    assert rates.take(1, 5, now=0.5) == 0
    assert rates.take(1, 100, now=1_000.0) == 0
    assert rates.take(1, 1, now=1_000.0) == 0.1


def test_request_beyond_the_burst_takes_a_full_bucket() -> None:
    rates = Rates(per_second=10)
    assert rates.take(1, 1_000, now=0.0) == 0
    assert rates.take(1, 1_000, now=0.0) == 10


def test_keys_have_buckets_of_their_own() -> None:
    rates = Rates(per_second=1)
    rates.take(1, 10, now=0.0)
    assert rates.take(2, 10, now=0.0) == 0


def test_clock_that_goes_back_takes_nothing_away() -> None:
    rates = Rates(per_second=1)
    rates.take(1, 5, now=100.0)
    assert rates.take(1, 5, now=0.0) == 0


def test_memory_of_keys_is_bounded() -> None:
    rates = Rates(per_second=1)
    for key_id in range(MAX_KEYS + 100):
        rates.take(key_id, 1, now=0.0)
    assert len(rates._buckets) == MAX_KEYS
