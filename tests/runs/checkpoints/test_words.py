from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from guardops.guard.reasons import Reason
from runs.checkpoints.words import ACTIONS, STATES, last_words, sla_of, span, state_of, title_of
from runs.choices import CheckpointState, DecisionAction, LastStep
from runs.models import Checkpoint

NOW = datetime(2026, 3, 14, 3, 14, tzinfo=UTC)
UNKNOWN = "Stopped for an unknown reason"


def waiting(*, age: int, due_in: int, **fields: Any) -> Checkpoint:
    """Return an open checkpoint of that age that is due in so many minutes."""
    times = {"opened_at": NOW - timedelta(minutes=age), "due_at": NOW + timedelta(minutes=due_in)}
    return Checkpoint(**{"state": "open", "last_did": "opened", "last_at": NOW, **times, **fields})


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_title_of_its_own(reason: Reason) -> None:
    assert title_of(reason) != UNKNOWN
    assert sum(title_of(other) == title_of(reason) for other in Reason) == 1


@pytest.mark.parametrize(
    ("reason", "limits", "title"),
    [
        ("no_progress", {"stall_limit": 6}, "Six steps in a row found nothing new"),
        ("no_progress", {"stall_limit": 12}, "12 steps in a row found nothing new"),
        ("MaxTurnsExceeded", {"max_turns": 1_200}, "All of its 1,200 turns are used up"),
        ("no_progress", {}, "It learns nothing new"),
        ("newer", {"max_steps": 3}, UNKNOWN),
    ],
)
def test_title_tells_the_limit_that_was_reached(reason: str, limits: dict[str, Any], title: str) -> None:
    assert title_of(reason, limits) == title


@pytest.mark.parametrize("sent", [True, 0, -3, 1, 10**12, 3.5, "6", None, [6], float("nan")])
def test_limit_that_is_no_plain_number_is_left_out_of_the_title(sent: Any) -> None:
    assert title_of("no_progress", {"stall_limit": sent}) == "It learns nothing new"


@pytest.mark.parametrize(
    ("age", "due_in", "words", "severity"),
    [
        (41, -11, "over by 11 min", "danger"),
        (30, 0, "over by under a minute", "danger"),
        (26, 4, "4 min left", "warn"),
        (9, 21, "21 min left", ""),
        (10, 14 * 60, "14 h left", ""),
        (22 * 60, 2 * 60, "2 h left", "warn"),  # the last sixth of a day
    ],
)
def test_sla_says_how_late_or_how_near(age: int, due_in: int, words: str, severity: str) -> None:
    sla = sla_of(waiting(age=age, due_in=due_in), NOW)
    assert (sla.said.words.replace("\u00a0", " "), sla.said.severity) == (words, severity)
    assert sla.late == (due_in <= 0)
    assert sla.age == f"{span(timedelta(minutes=age))} old"


def test_span_is_written_in_its_two_largest_units() -> None:
    spans = [timedelta(seconds=59), timedelta(minutes=63), timedelta(hours=52, minutes=9), timedelta(days=1)]
    told = [span(one).replace("\u00a0", " ") for one in spans]
    assert told == ["under a minute", "1 h 3 min", "2 d 4 h", "1 d"]


def test_claim_whose_lease_has_ended_counts_as_open() -> None:
    claimed = waiting(age=9, due_in=9, state="claimed", lease_until=NOW)
    assert state_of(claimed, NOW - timedelta(seconds=1)).words == "Claimed"
    assert state_of(claimed, NOW).words == "Open"


def test_every_state_and_action_has_words() -> None:
    assert set(STATES) == set(CheckpointState.values)
    assert set(ACTIONS) == set(DecisionAction.values)


@pytest.mark.parametrize("did", LastStep)
def test_last_step_is_told_with_and_without_a_name(did: LastStep) -> None:
    checkpoint = waiting(age=1, due_in=1, last_did=did)
    assert last_words(checkpoint, "kim") == f"kim {did.label}"
    assert last_words(checkpoint, "")[0].isupper()
