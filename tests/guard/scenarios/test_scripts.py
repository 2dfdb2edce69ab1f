"""Each scripted agent meets the rule that it was written for, and sound ones meet none that stops them."""

from __future__ import annotations

from random import Random

import httpx
import pytest

from guardops.guard.events import Answer, Outcome
from guardops.guard.reasons import Reason
from guardops.guard.scenarios import coding, exports, research, support
from guardops.guard.scenarios.roster import CODING, DELIVERY, EXPORTS, SUPPORT, Start, jobs, research_job

from .driving import drive

ASTRAY = [
    (research.rewords_its_search, research.TOOLS, Reason.NO_PROGRESS, Outcome.COMPLETED_FORCED),
    (research.clings_to_one_site, research.TOOLS, Reason.SOURCE_CAP, Outcome.COMPLETED_FORCED),
    (research.turns_every_page, research.TOOLS, Reason.LISTING_CAP, Outcome.COMPLETED_FORCED),
    (research.rechecks_two_sources, research.TOOLS, Reason.CYCLE_PERIOD_2, Outcome.COMPLETED_FORCED),
    (research.verifies_for_ever, research.TOOLS, Reason.NO_PROGRESS, Outcome.COMPLETED_FORCED),
    (research.goes_from_bad_to_worse, research.TOOLS, Reason.NO_PROGRESS, Outcome.COMPLETED_FORCED),
    (support.asks_again, support.TOOLS, Reason.REPEATED_CALL, Outcome.COMPLETED_FORCED),
    (support.has_no_access, support.TOOLS, Reason.TOOL_AUTH_ERROR, Outcome.ESCALATED),
    (support.has_no_quota, support.TOOLS, Reason.QUOTA_EXHAUSTED, Outcome.ESCALATED),
    (support.loses_a_refund, support.TOOLS, Reason.UNCERTAIN_WRITE, Outcome.ESCALATED),
    (support.asks_for_leave, support.TOOLS, Reason.APPROVAL_REQUIRED, Outcome.ESCALATED),
    (support.reaches_for_a_forbidden_tool, support.TOOLS, Reason.FORBIDDEN_TOOL, Outcome.HALTED),
    (coding.repeats_an_edit, coding.TOOLS, Reason.TOOL_NO_PROGRESS, Outcome.COMPLETED_FORCED),
    (coding.runs_the_linter_again, coding.TOOLS, Reason.REPEATED_CALL, Outcome.COMPLETED_FORCED),
    (coding.goes_round_in_three, coding.TOOLS, Reason.CYCLE_PERIOD_3, Outcome.COMPLETED_FORCED),
    (coding.has_a_long_way, coding.TOOLS, Reason.STEP_BUDGET, Outcome.COMPLETED_FORCED),
    (coding.guesses_arguments, coding.TOOLS, Reason.ERROR_STREAK, Outcome.COMPLETED_FORCED),
    (exports.waits_for_ever, exports.TOOLS, Reason.POLL_EXHAUSTED, Outcome.COMPLETED_FORCED),
    (exports.storms_a_failing_service, exports.TOOLS, Reason.TOOL_RETRY_EXHAUSTED, Outcome.COMPLETED_FORCED),
    (exports.takes_the_bait, exports.TOOLS, Reason.TOOL_NO_PROGRESS, Outcome.COMPLETED_FORCED),
    (exports.is_held_up, exports.TOOLS, Reason.WALL_CLOCK, Outcome.COMPLETED_FORCED),
]


@pytest.mark.parametrize(
    ("start", "tools", "reason", "outcome"), ASTRAY, ids=lambda part: getattr(part, "__name__", "")
)
@pytest.mark.parametrize("seed", range(5))
def test_an_agent_astray_is_stopped_for_its_reason(
    start: Start, tools: dict[str, dict[str, object]], reason: Reason, outcome: Outcome, seed: int
) -> None:
    event = drive(start(Random(seed)), tools).event

    assert event.first_reason == reason
    assert event.outcome == outcome
    assert event.halt_reason


def test_every_script_that_goes_astray_is_covered(web: httpx.Client) -> None:
    covered = {start for start, *_ in ASTRAY}
    rostered = {start for job in jobs(web).values() if job is not DELIVERY for _, start in job.astray}

    assert {start.__name__ for start in rostered - covered} == {"tarpit"}


@pytest.mark.parametrize("seed", range(40))
def test_sound_agents_are_never_stopped(web: httpx.Client, seed: int) -> None:
    for job in (research_job(web), SUPPORT, CODING, EXPORTS):
        for _, start in job.sound:
            event = drive(start(Random(seed)), TOOLS_OF[job.name]).event

            assert event.halt_reason is None, (start.__name__, event.halt_reason)
            assert event.outcome in {Outcome.COMPLETED, Outcome.FAILED}


TOOLS_OF = {module.JOB: module.TOOLS for module in (research, support, coding, exports)}


def test_who_heeds_a_nudge_and_then_goes_to_and_fro_is_stopped_for_that() -> None:
    event = drive(research.goes_from_bad_to_worse(Random(1)), research.TOOLS).event

    assert (event.first_reason, event.halt_reason) == (Reason.NO_PROGRESS, Reason.CYCLE_PERIOD_2)


def test_a_nudge_that_is_heeded_lets_the_run_complete() -> None:
    event = drive(research.heeds_the_nudge(Random(1)), research.TOOLS).event

    assert (event.outcome, event.answer, event.first_reason) == (
        Outcome.COMPLETED,
        Answer.FULL,
        Reason.NO_PROGRESS,
    )


def test_a_second_refund_is_refused_and_the_run_completes() -> None:
    event = drive(support.refunds_twice(Random(1)), support.TOOLS).event

    assert (event.outcome, event.refusals) == (Outcome.COMPLETED, 1)
    assert event.first_reason == Reason.DUPLICATE_SIDE_EFFECT


def test_a_failing_service_counts_as_the_providers_failure() -> None:
    assert drive(exports.storms_a_failing_service(Random(1)), exports.TOOLS).event.provider_failure


def test_the_same_seed_gives_the_same_run() -> None:
    first, second = (drive(research.finds_facts(Random(7)), research.TOOLS).event for _ in range(2))

    assert (first.steps, first.cost, first.ended_at, first.sources) == (
        second.steps,
        second.cost,
        second.ended_at,
        second.sources,
    )
