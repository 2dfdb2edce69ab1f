from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from guardops.guard.events import Action, Answer, Outcome
from guardops.guard.reasons import Reason
from guardops.guard.scenarios.economy import Rates
from guardops.guard.scenarios.script import Heard, Script, Turn, calls

from .driving import NOW, drive


def script(*turns: Turn, outcome: Outcome = Outcome.COMPLETED) -> Script:
    ahead = list(turns)
    while ahead:
        yield ahead.pop(0)
    return outcome


def test_a_run_that_closes_by_itself_keeps_its_outcome() -> None:
    driven = drive(script(calls("find", {"q": 1}, "found"), Turn()))

    assert driven.stop is None
    assert (driven.event.outcome, driven.event.answer) == (Outcome.COMPLETED, Answer.FULL)
    assert (driven.event.steps, driven.event.turns, driven.proposed) == (1, 2, 1)


def test_a_refused_call_does_not_run_and_the_agent_goes_on() -> None:
    same = [calls("find", {"q": 1}, "found")] * 4

    driven = drive(script(*same, calls("find", {"q": 2}, "other"), Turn()))

    assert (driven.refused, driven.nudges, driven.stop) == (1, 1, None)
    assert (driven.event.steps, driven.event.tool_calls) == (4, 5)


def test_an_answer_in_the_last_turn_of_the_budget_is_no_stop() -> None:
    searches = [calls("find", {"q": i}, f"found {i}") for i in range(39)]

    driven = drive(script(*searches, Turn()))

    assert (driven.stop, driven.event.turns, driven.event.outcome) == (None, 40, Outcome.COMPLETED)


def test_the_second_trip_after_the_nudge_is_the_stop() -> None:
    driven = drive(script(*[calls("find", {"q": 1}, "found")] * 9, Turn()))

    assert driven.stop is not None
    assert (driven.stop.action, driven.stop.reason, driven.stop.step) == (
        Action.FORCE_ANSWER,
        Reason.REPEATED_CALL,
        5,
    )
    assert driven.proposed == 5
    assert driven.event.outcome is Outcome.COMPLETED_FORCED


def test_a_forced_answer_takes_one_more_turn_and_a_halt_none() -> None:
    looping = drive(script(*[calls("find", {"q": 1}, "found")] * 9))
    forbidden = drive(script(calls("drop", {}, "gone")), {"drop": {"forbidden": True}})

    assert looping.event.turns == 6
    assert (forbidden.event.turns, forbidden.event.outcome) == (1, Outcome.HALTED)


def test_the_agent_hears_what_the_guard_said() -> None:
    heard: list[Heard] = []

    def listening() -> Script:
        for _ in range(4):
            said = yield calls("find", {"q": 1}, "found")
            heard.append(said)
        return Outcome.COMPLETED

    drive(listening())

    assert [said.action for said in heard] == [Action.CONTINUE] * 3 + [Action.NUDGE]
    assert heard[3].reason == Reason.REPEATED_CALL
    assert "find" in heard[3].message


def test_a_call_that_must_wait_runs_when_its_time_has_come() -> None:
    failing = calls("find", {"q": 1}, error={"status": 503, "retry_after": 30}, seconds=1.0)

    driven = drive(script(failing, calls("find", {"q": 1}, "found", seconds=1.0), Turn()))

    assert (driven.event.steps, driven.event.retries, driven.refused) == (2, 1, 0)
    assert driven.event.ended_at - NOW > timedelta(seconds=32)


def test_a_run_is_charged_at_its_rates() -> None:
    modelled = drive(script(Turn())).event
    real = drive(script(Turn()), rates=Rates(tokens_in=2, tokens_out=3, seconds=4, cost=Decimal(5))).event

    assert real.tokens.input == 2 * modelled.tokens.input
    assert real.tokens.output == 3 * modelled.tokens.output
    assert real.cost > 10 * modelled.cost
    assert real.ended_at - NOW > 4 * (modelled.ended_at - NOW)
