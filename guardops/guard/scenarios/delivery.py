"""Scripted agents that give work to each other: a lead starts helpers, each a run of the same task.

All of them share the root's budgets, hops and descendants. Progress is a part of the work that came back.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from guardops.guard.events import Outcome
from guardops.guard.scenarios.script import Move, Script, Turn, calls

JOB = "delivery"
AGENT = "lead"
TOOLS: dict[str, dict[str, object]] = {
    "hand_over": {"kind": "delegate"},
    "start_agent": {"kind": "spawn"},
}


def _brief(rng: Random, number: int) -> Turn:
    return calls(
        "read_brief",
        {"part": number, "of": rng.randrange(10**6)},
        f"part {number}",
        progressed=True,
        seconds=rng.uniform(0.2, 1.5),
    )


def _give(work: str, helper: Callable[[], Script]) -> Turn:
    return Turn((Move("start_agent", {"work": work}, helper=helper),))


def does_a_part(rng: Random) -> Script:
    """A helper: read a thing or two, answer."""
    for number in range(rng.randrange(1, 3)):
        yield _brief(rng, number)
    yield Turn()
    return Outcome.COMPLETED


def splits_the_work(rng: Random) -> Script:
    """Read the brief, give each part to a helper, put together what they bring."""
    yield _brief(rng, 0)
    for number in range(rng.randrange(1, 4)):
        yield _give(f"part {number}", lambda: does_a_part(rng))
    yield calls("assemble", {"work": rng.randrange(10**6)}, "assembled", progressed=True, seconds=1.0)
    yield Turn()
    return Outcome.COMPLETED if rng.random() < 0.95 else Outcome.FAILED


def hands_it_back_and_forth(rng: Random) -> Script:
    """Author and reviewer hand each other the same package, and neither of them changes it."""
    package = f"package-{rng.randrange(10**6):06}"
    yield _brief(rng, 0)
    for number in range(20):
        giver, taker = ("author", "reviewer") if number % 2 == 0 else ("reviewer", "author")
        yield calls("hand_over", {"from": giver, "to": taker, "package": package}, "please look once more")
    return Outcome.FAILED


def reads_and_passes_on(rng: Random) -> Script:
    """Look at what was handed over, and leave it to somebody else."""
    yield _brief(rng, 0)
    yield Turn()
    return Outcome.UNRESOLVED


def schedules_itself(rng: Random) -> Script:
    """Leave the work to one more run of the same kind, which does the same."""
    yield _brief(rng, 0)
    yield _give("the same again", lambda: schedules_itself(rng))
    yield Turn()
    return Outcome.UNRESOLVED


def starts_helpers_without_end(rng: Random) -> Script:
    """For every part that comes back there is one more to give away."""
    yield _brief(rng, 0)
    for number in range(60):
        yield _give(f"part {number}", lambda: does_a_part(rng))
    return Outcome.COMPLETED
