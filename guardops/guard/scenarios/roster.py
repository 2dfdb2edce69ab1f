"""Which scripted agents do which job, how often, and how a bad release shifts that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

import httpx

from guardops.guard.policy import Policy
from guardops.guard.reasons import Reason
from guardops.guard.scenarios import coding, delivery, exports, research, support
from guardops.guard.scenarios.script import Script

Start = Callable[[Random], Script]


@dataclass(frozen=True, slots=True)
class Job:
    """A kind of work: its agent, its policy, and the scripts that do it with their weights."""

    name: str
    agent: str
    policy: Policy
    sound: tuple[tuple[int, Start], ...]
    astray: tuple[tuple[int, Start], ...]
    lingering: tuple[Start, ...] = ()
    """Those of them that stay near a limit for minutes."""

    def draw(self, rng: Random, astray_share: float) -> Script:
        """Start a script: with the given probability one that goes astray, else a sound one."""
        kinds = self.astray if rng.random() < astray_share else self.sound
        (start,) = rng.choices([start for _, start in kinds], [weight for weight, _ in kinds])
        return start(rng)


SUPPORT = Job(
    name=support.JOB,
    agent=support.AGENT,
    policy=Policy.from_mapping({"tools": support.TOOLS}),
    sound=((24, support.settles_a_ticket), (1, support.refunds_twice)),
    astray=(
        (4, support.asks_again),
        (2, support.loses_a_refund),
        (1, support.has_no_access),
        (1, support.has_no_quota),
        (2, support.asks_for_leave),
        (1, support.reaches_for_a_forbidden_tool),
    ),
)
CODING = Job(
    name=coding.JOB,
    agent=coding.AGENT,
    # Half a change is worse than none yet: a person decides.
    policy=Policy.from_mapping({"tools": coding.TOOLS, "partial_ok": False}),
    sound=((1, coding.mends_the_tests),),
    astray=(
        (4, coding.repeats_an_edit),
        (3, coding.runs_the_linter_again),
        (2, coding.goes_round_in_three),
        (2, coding.has_a_long_way),
        (1, coding.guesses_arguments),
    ),
    lingering=(coding.has_a_long_way,),
)
EXPORTS = Job(
    name=exports.JOB,
    agent=exports.AGENT,
    policy=Policy.from_mapping({"tools": exports.TOOLS}),
    sound=((15, exports.waits_until_ready), (1, exports.recovers_from_an_outage)),
    astray=(
        (3, exports.waits_for_ever),
        (4, exports.storms_a_failing_service),
        (2, exports.takes_the_bait),
        (1, exports.is_held_up),
    ),
    lingering=(exports.is_held_up,),
)
DELIVERY = Job(
    name=delivery.JOB,
    agent=delivery.AGENT,
    # One budget for the lead and all its helpers.
    policy=Policy.from_mapping({"tools": delivery.TOOLS, "max_steps": 120, "max_turns": 120}),
    sound=((1, delivery.splits_the_work),),
    astray=(
        (3, delivery.hands_it_back_and_forth),
        (2, delivery.schedules_itself),
        (1, delivery.starts_helpers_without_end),
    ),
)


def research_job(client: httpx.Client) -> Job:
    """Return the research job; ``client`` fetches the tarpit's pages."""

    def tarpit(rng: Random) -> Script:
        return research.falls_into_the_tarpit(rng, client)

    return Job(
        name=research.JOB,
        agent=research.AGENT,
        policy=Policy.from_mapping({"tools": research.TOOLS}),
        sound=((12, research.finds_facts), (1, research.heeds_the_nudge)),
        astray=(
            (6, tarpit),
            (3, research.rewords_its_search),
            (2, research.rechecks_two_sources),
            (2, research.verifies_for_ever),
            (2, research.goes_from_bad_to_worse),
            (1, research.clings_to_one_site),
            (1, research.turns_every_page),
        ),
    )


def jobs(client: httpx.Client) -> Mapping[str, Job]:
    """Return all jobs by name; ``client`` fetches the tarpit's pages."""
    return {job.name: job for job in (research_job(client), SUPPORT, CODING, EXPORTS, DELIVERY)}


LOOP_CLASSES: Mapping[str, tuple[Callable[..., Script], Reason]] = {
    "repetition": (support.asks_again, Reason.REPEATED_CALL),
    "oscillation": (research.rechecks_two_sources, Reason.CYCLE_PERIOD_2),
    "semantic loop": (research.rewords_its_search, Reason.NO_PROGRESS),
    "stall, tarpit": (research.falls_into_the_tarpit, Reason.NO_PROGRESS),
    "unsatisfiable wait": (exports.waits_for_ever, Reason.POLL_EXHAUSTED),
    "retry storm": (exports.storms_a_failing_service, Reason.TOOL_RETRY_EXHAUSTED),
    "retry bait": (exports.takes_the_bait, Reason.TOOL_NO_PROGRESS),
    "verification trap": (research.verifies_for_ever, Reason.NO_PROGRESS),
    "ping-pong": (delivery.hands_it_back_and_forth, Reason.LINEAGE_PING_PONG),
    "self-scheduling": (delivery.schedules_itself, Reason.HOP_BUDGET),
    "recursive delegation": (delivery.starts_helpers_without_end, Reason.DESCENDANTS_BUDGET),
}
"""Each class of loops, the script that acts it out, and what the guard stops it for."""
