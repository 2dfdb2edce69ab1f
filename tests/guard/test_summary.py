from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from guardops.guard.events import Action, Answer, Outcome, RunEnded, SourceKind, StepOutcome
from tests.guard.agent import Agent, guard

FORCED = {"max_steps": 1}
ESCALATED = {"max_steps": 1, "partial_ok": False}
HALTED = {"tools": {"f": {"forbidden": True}}}


@pytest.mark.parametrize(
    ("policy", "outcome", "answer", "expected"),
    [
        ({}, None, None, (Outcome.COMPLETED, Answer.FULL)),
        ({}, None, Answer.NONE, (Outcome.UNRESOLVED, Answer.NONE)),
        ({}, Outcome.COMPLETED, None, (Outcome.COMPLETED, Answer.FULL)),
        ({}, Outcome.FAILED, None, (Outcome.FAILED, Answer.NONE)),
        ({}, Outcome.UNRESOLVED, None, (Outcome.UNRESOLVED, Answer.NONE)),
        (FORCED, None, None, (Outcome.COMPLETED_FORCED, Answer.FORCED)),
        (FORCED, Outcome.COMPLETED, Answer.FULL, (Outcome.COMPLETED_FORCED, Answer.FORCED)),
        (FORCED, None, Answer.NONE, (Outcome.UNRESOLVED, Answer.NONE)),
        (FORCED, Outcome.UNRESOLVED, None, (Outcome.UNRESOLVED, Answer.NONE)),
        (FORCED, Outcome.FAILED, None, (Outcome.FAILED, Answer.NONE)),
        (ESCALATED, Outcome.COMPLETED, Answer.FULL, (Outcome.ESCALATED, Answer.NONE)),
        (HALTED, Outcome.COMPLETED, Answer.FULL, (Outcome.HALTED, Answer.NONE)),
        (HALTED, Outcome.CANCELLED, None, (Outcome.CANCELLED, Answer.NONE)),
    ],
)
def test_a_stop_overrules_what_the_caller_says(
    policy: dict[str, object],
    outcome: Outcome | None,
    answer: Answer | None,
    expected: tuple[Outcome, Answer],
) -> None:
    agent = Agent(**policy)
    agent.call("f", {}, "r")
    ended = agent.run.end(outcome, answer=answer)
    assert (ended.outcome, ended.answer) == expected


def test_an_event_survives_the_wire() -> None:
    agent = Agent(tools={"pay": {"class": "side_effect"}})
    agent.run.turn(100, 20, "0.0125", tokens_cached=40)
    agent.call("fetch", {"url": "https://a.example/"}, "r")
    agent.call("pay", {"to": "x"}, error={"status": 503})
    agent.now = 9
    event = agent.run.end(Outcome.COMPLETED, release="r7", attributes={"k": "v"})
    decoded = msgspec.json.decode(msgspec.json.encode(event), type=RunEnded)
    assert decoded == event
    assert (str(event.cost), event.tokens.input, event.tokens.cached) == ("0.0125", 100, 40)
    assert (event.release, event.attributes) == ("r7", {"k": "v"})
    assert (event.ended_at - event.started_at).total_seconds() == 9


def test_the_event_names_the_shipped_version() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    assert guard().run(job_type="t").end().guard.version == project["version"]


def test_a_foreign_id_replaces_the_run_id() -> None:
    event = guard().run(job_type="t", external_id="job-17").end()
    assert (event.run_id, event.external_id) == (None, "job-17")


def test_counts_tell_proposed_executed_refused_retried_and_repeated_calls_apart() -> None:
    agent = Agent()
    agent.reasons(2, "a", result="r")
    agent.call("b", error={"status": 404})
    agent.call("b")
    agent.call("c", error={"status": 503})
    agent.now = 5
    agent.call("c", result="r")
    event = agent.run.end()
    assert (event.tool_calls, event.steps, event.refusals, event.retries) == (6, 5, 1, 1)
    assert (event.duplicates, event.blocked_fingerprints, event.blocked_by_provider) == (2, 1, 0)


def test_peaks_stand_where_the_counters_stood_refused_proposals_included() -> None:
    agent = Agent(domain_cap=2, max_refusals=9)
    agent.reasons(4, "a", result="r")
    for number in range(2):
        agent.call("fetch", {"url": f"https://x.example/?page={number}"}, f"p{number}", progressed=False)
    agent.call("b", {"i": 1}, error={"status": 404})
    agent.call("fetch", {"url": "https://x.example/?page=3"})
    peaks = agent.run.end().peaks
    assert (peaks.repeats, peaks.domain_calls, peaks.listing_pages) == (4, 3, 2)
    assert (peaks.stall, peaks.error_streak, peaks.refusals) == (5, 1, 2)


@pytest.mark.parametrize(("status", "by_provider"), [(503, True), (429, True), (500, True), (404, False)])
def test_a_fingerprint_blocked_for_its_provider_is_counted_apart(status: int, by_provider: bool) -> None:
    agent = Agent(max_retries=0)
    agent.call("a", error={"status": status})
    agent.now = 50
    agent.call("a")
    event = agent.run.end(Outcome.COMPLETED)
    assert (event.blocked_fingerprints, event.blocked_by_provider) == (1, int(by_provider))
    assert event.provider_failure is by_provider


def test_a_failed_run_whose_last_error_was_the_providers_is_a_provider_failure() -> None:
    lost, recovered = Agent(), Agent()
    lost.call("a", error={"status": 503})
    recovered.call("a", error={"status": 503})
    recovered.call("b", {}, "r")
    assert lost.run.end(Outcome.FAILED).provider_failure
    assert not lost.run.end(Outcome.COMPLETED).provider_failure
    assert not recovered.run.end(Outcome.FAILED).provider_failure


def test_a_call_refused_while_its_twin_runs_blocks_no_fingerprint() -> None:
    agent = Agent()
    agent.ticket("a")
    agent.check("a")
    assert agent.run.end().blocked_fingerprints == 0


def test_sources_of_a_halted_root_are_quarantined() -> None:
    agent = Agent(stall_limit=1)
    agent.call("fetch", {"url": "https://trap.example/1"}, "r", progressed=False)
    agent.call("fetch", {"url": "https://trap.example/2"}, "r", progressed=False)
    agent.call("fetch", {"url": "https://trap.example/3"}, "r")
    source = agent.run.end().sources[0]
    assert (source.kind, source.name, source.calls) == (SourceKind.DOMAIN, "trap.example", 2)
    assert source.proposed
    assert source.quarantined


def test_the_last_twenty_steps_are_kept_and_what_was_cut_is_named() -> None:
    agent = Agent()
    for i in range(25):
        agent.call(f"tool{i}", {"i": i}, f"r{i}")
    event = agent.run.end()
    assert [step.step for step in event.last_steps] == list(range(6, 26))
    assert event.truncated == ["last_steps", "sources"]
    assert len(event.sources) == 20


def test_steps_say_how_they_ended() -> None:
    agent = Agent()
    agent.call("a", {"q": 1}, "r", progressed=True)
    agent.call("b", {}, [])
    agent.call("c", {}, error={"status": 404, "code": "gone"})
    agent.call("c")
    steps = agent.run.end().last_steps
    assert [step.outcome for step in steps] == [
        StepOutcome.OK,
        StepOutcome.EMPTY,
        StepOutcome.ERROR,
        StepOutcome.REFUSED,
    ]
    assert (steps[0].args, steps[0].progressed) == ('{"q":1}', True)
    assert (steps[2].error_class, steps[2].error_code, steps[2].result_digest) == ("permanent", "gone", "")
    assert steps[3].error_code == "tool_no_progress"
    assert steps[0].args_hash != steps[1].args_hash


def test_interventions_tell_the_whole_story() -> None:
    agent = Agent()
    agent.reasons(3, "a", result="r")
    for _ in range(2):
        agent.check("a")
    agent.check("b")
    event = agent.run.end()
    assert [(i.step, i.action) for i in event.interventions] == [
        (4, Action.NUDGE),
        (5, Action.FORCE_ANSWER),
        (6, Action.HALT),
    ]


def test_no_secret_leaves_the_process() -> None:
    agent = Agent()
    agent.call(
        "login",
        {"user": "u", "password": "hunter2-hunter2", "headers": {"authorization": "hunter2"}},
        "hunter2 r",
    )
    event = msgspec.json.encode(agent.run.end())
    assert b"hunter2" not in event
    assert b"hunter2" not in agent.run.snapshot()
