from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from guardops.guard.events import Answer, CostBasis, Outcome, RunEnded, SourceKind
from guardops.guard.policy import Policy
from guardops.guard.reasons import Reason
from runs.replay.play import Played, Player
from runs.replay.timing import SPREAD, Calendar
from runs.replay.traces import Trace

from .recordings import call, loop, trace

UNTIL = datetime(2026, 11, 30, 10, tzinfo=UTC)


def play(recorded: Trace, **tools: dict[str, object]) -> Played:
    return Player(Policy.from_mapping({"tools": tools}), Calendar(UNTIL), tenant="acme").play(recorded)


def domains(event: RunEnded) -> dict[str, int]:
    return {source.name: source.calls for source in event.sources if source.kind is SourceKind.DOMAIN}


def test_the_event_says_whose_run_it_was_and_when_it_was_recorded() -> None:
    event = play(trace(call("a"), started_at="2025-07-25 03:29:00", ended="answer")).event

    assert (event.tenant, event.job_type, event.release, event.agent) == ("acme", "search", "model-1", "lab")
    assert event.attributes == {
        "recorded_run_id": "lab/1",
        "recorded_outcome": "completed",
        "recorded_started_at": "2025-07-25 03:29:00",
        "recorded_end": "answer",
    }


def test_the_run_is_put_onto_recent_days() -> None:
    event = play(trace(call("a"), started_at="2025-07-25 03:29:00")).event

    assert UNTIL - SPREAD <= event.started_at < event.ended_at <= UNTIL


def test_the_same_recording_always_gives_the_same_event() -> None:
    recorded = trace(call("a"), call("b", error="not there"), call("a"), *loop())

    assert play(recorded).event == play(recorded).event


@pytest.mark.parametrize(
    ("recorded", "outcome", "answer"),
    [
        ("completed", Outcome.COMPLETED, Answer.FULL),
        ("failed", Outcome.FAILED, Answer.NONE),
        ("unknown", Outcome.UNRESOLVED, Answer.NONE),
    ],
)
def test_a_run_that_is_not_stopped_ends_as_recorded(recorded: str, outcome: Outcome, answer: Answer) -> None:
    event = play(trace(call("a"), outcome=recorded)).event

    assert (event.outcome, event.answer, event.halt_reason) == (outcome, answer, None)


def test_a_stop_overrules_the_recorded_outcome() -> None:
    played = play(trace(*loop(), call("b", "other")))

    assert (played.event.outcome, played.event.answer) == (Outcome.COMPLETED_FORCED, Answer.FORCED)
    assert played.line() == {
        "run_id": "lab/1",
        "stop_reason": Reason.REPEATED_CALL,
        "stop_step": 5,
        "refused": 2,
        "nudges": 1,
        "calls_after_stop": 5,
    }


def test_a_run_that_is_not_stopped_has_no_stop_in_its_line() -> None:
    assert play(trace(call("a"), call("b"))).line() == {
        "run_id": "lab/1",
        "stop_reason": None,
        "stop_step": None,
        "refused": 0,
        "nudges": 0,
        "calls_after_stop": 0,
    }


@pytest.mark.parametrize(
    ("after", "news"),
    [
        ([call("b", "other")], True),
        ([call("b", "found")], False),
        ([call("b", "")], False),
        ([call("b", "[]", result_len=2, result_excerpt="[]")], False),
        ([call("b", error="no such thing")], False),
        ([], False),
    ],
)
def test_news_after_a_stop_is_a_result_with_something_in_it_that_was_not_seen_before(
    after: list[dict[str, object]], news: bool
) -> None:
    assert play(trace(*loop(5), *after)).news_after_stop is news


def test_calls_are_the_same_by_the_digest_of_their_arguments_not_by_what_is_shown_of_them() -> None:
    masked = [call("<email:1>", args_sha=f"real {number}") for number in range(5)]

    assert play(trace(*masked)).refused == 0


def test_a_changed_result_is_no_repetition() -> None:
    assert play(trace(*[call("same", f"page {number}") for number in range(9)])).refused == 0


def test_an_error_text_that_sounds_transient_classifies_nothing() -> None:
    played = play(trace(*[call("a", error="503 temporary failure, please retry")] * 2))

    assert (played.refused, played.event.first_reason) == (1, Reason.TOOL_NO_PROGRESS)


def test_a_recorded_domain_is_a_source_of_a_reading_tool() -> None:
    fetched = [call(str(number), f"page {number}", domain="docs.example.org") for number in range(3)]

    assert domains(play(trace(*fetched)).event) == {"example.org": 3}


def test_a_domain_that_a_writing_tool_mentions_is_no_source() -> None:
    mentioned = call("a", tool="send", domain="docs.example.org")

    assert domains(play(trace(mentioned), send={"class": "side_effect"}).event) == {}


def test_a_stopped_run_is_charged_for_what_it_did() -> None:
    whole, stopped = play(trace(*[call(str(n), str(n)) for n in range(9)])), play(trace(*loop(9)))

    assert stopped.event.turns == 6
    assert Decimal(0) < stopped.event.cost < whole.event.cost
    assert stopped.event.cost_basis is CostBasis.ESTIMATE


def test_a_forced_answer_is_charged_for_the_transcript_it_reads() -> None:
    short, long = (play(trace(*[call("same", result_len=size)] * 9)) for size in (400, 40_000))

    assert long.event.tokens.input - short.event.tokens.input == 9_900 * (1 + 2 + 3 + 3 + 3)


def test_a_stated_cost_is_the_providers() -> None:
    event = play(trace(call("a"), cost={"usd": 0.5})).event

    assert event.cost == pytest.approx(Decimal("0.5"), abs=Decimal("0.00001"))
    assert event.cost_basis is CostBasis.PROVIDER


def test_a_stated_duration_is_the_runs() -> None:
    event = play(trace(call("a"), call("b"), duration_s=120.0)).event

    assert event.ended_at - event.started_at == pytest.approx(
        timedelta(seconds=120), abs=timedelta(seconds=0.01)
    )


def test_a_recording_that_took_longer_than_the_limit_is_stopped_by_the_clock() -> None:
    played = play(trace(*[call(str(n), str(n)) for n in range(5)], duration_s=3_000.0))

    assert played.event.halt_reason == Reason.WALL_CLOCK
    assert played.calls_after_stop > 0


def test_one_player_plays_the_same_run_twice() -> None:
    player = Player(Policy(), Calendar(UNTIL))
    recorded = trace(*loop())

    assert player.play(recorded).event == player.play(recorded).event
