"""Scripted coding agents: they read, edit and run tests; progress is a change in the set of failing tests."""

from __future__ import annotations

from random import Random

from guardops.guard.events import Outcome
from guardops.guard.scenarios.script import Move, Script, Seen, Turn, calls

JOB = "coding"
AGENT = "smith"
TOOLS: dict[str, dict[str, object]] = {"edit_file": {"class": "write"}}


def _path(rng: Random) -> str:
    return f"src/{rng.choice(('core', 'api', 'jobs'))}/part_{rng.randrange(60)}.py"


def _edit(path: str, number: int) -> Turn:
    return calls(
        "edit_file", {"path": path, "old": f"v{number}", "new": f"v{number + 1}"}, "edited", progressed=None
    )


def mends_the_tests(rng: Random) -> Script:
    """Read, edit, run: fewer tests fail every time."""
    path = _path(rng)
    yield calls("read_file", {"path": path}, "x" * rng.randrange(1_000, 8_000), progressed=True)
    failing = rng.randrange(1, 7)
    for number in range(failing):
        yield _edit(path, number)
        yield calls(
            "run_tests",
            {"path": "tests"},
            f"{failing - number - 1} failed",
            progressed=True,
            seconds=rng.uniform(2, 20),
        )
    yield Turn()
    return Outcome.COMPLETED if rng.random() < 0.93 else Outcome.FAILED


def repeats_an_edit(rng: Random) -> Script:
    """Send the same edit again and again although the old text is not in the file."""
    path = _path(rng)
    yield calls("read_file", {"path": path}, "x" * 2_000, progressed=True)
    for _ in range(40):
        yield calls(
            "edit_file",
            {"path": path, "old": "foo()", "new": "bar()"},
            error={"code": "no_match", "class": "validation"},
        )
    return Outcome.FAILED


def runs_the_linter_again(rng: Random) -> Script:
    """Run the linter over and over; its one finding stays."""
    yield calls("read_file", {"path": _path(rng)}, "x" * 2_000, progressed=True)
    for _ in range(40):
        yield calls("run_linter", {"path": "."}, "1 finding", seconds=3.0)
    return Outcome.FAILED


def goes_round_in_three(rng: Random) -> Script:
    """Read, run, look at the log, in a ring; nothing changes."""
    path = _path(rng)
    ring = (
        ("read_file", {"path": path}, "text"),
        ("run_tests", {"path": "tests"}, "3 failed"),
        ("read_log", {"path": "test.log"}, "3 failed, see above"),
    )
    for step in range(60):
        tool, args, result = ring[step % 3]
        yield calls(tool, dict(args), result)
    return Outcome.FAILED


def has_a_long_way(rng: Random) -> Script:
    """A task with more files than the step budget allows, two a turn, each of them a step forward."""
    seen = Seen("x" * 300, progressed=True, seconds=rng.uniform(1, 4), characters=300)
    for number in range(0, 80, 2):
        pair = (f"src/{number}.py", f"src/{number + 1}.py")
        yield Turn(tuple(Move("read_file", {"path": path}, lambda: seen) for path in pair))
    return Outcome.COMPLETED


def guesses_arguments(rng: Random) -> Script:
    """Try one wrong argument after the other; the tool turns each of them down."""
    for number in range(40):
        yield calls(
            "run_task",
            {"name": f"task-{number}"},
            error={"code": "unknown_task", "class": "validation"},
            progressed=None,
        )
    return Outcome.FAILED
