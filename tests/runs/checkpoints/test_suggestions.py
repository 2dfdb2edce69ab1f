"""What a reviewer may take over with two taps."""

from __future__ import annotations

from decimal import Decimal

import pytest

from guardops.guard.checkpoints import Amounts, AttemptedSource
from guardops.guard.decisions import AddedBudget, DecisionAction, DecisionChange
from guardops.guard.events import SourceKind
from runs.checkpoints.ceiling import Ceiling
from runs.checkpoints.packet import Packet
from runs.checkpoints.suggestions import suggestions
from runs.models import Checkpoint

PLENTY = Amounts(steps=26, turns=25, seconds=805, tokens=90_000, cost=Decimal("1.69"))
MOST = {"steps": 20, "seconds": 600, "cost": Decimal(2)}
STUCK_ON_ONE = [AttemptedSource(kind=SourceKind.DOMAIN, name="mirror.example", calls=14)]


def resume_of(
    family: str, *, left: Amounts, sources: list[AttemptedSource], **most: int | Decimal
) -> DecisionChange | None:
    """Return the change of the resume that is suggested first."""
    checkpoint, packet = Checkpoint(family=family, steps=14), Packet(sources=sources)
    found = suggestions(checkpoint, packet, Ceiling(left=left, **most))  # type: ignore[arg-type]
    return next((one.change for one in found if one.action is DecisionAction.RESUME), None)


@pytest.mark.parametrize(
    ("spent", "added"),
    [
        ({}, None),
        ({"steps": 0}, AddedBudget(steps=10)),
        ({"turns": 3}, AddedBudget(steps=10)),
        ({"seconds": 0}, AddedBudget(seconds=300)),
        ({"cost": Decimal(0)}, AddedBudget(cost=Decimal(1))),
        ({"tokens": 0}, AddedBudget(cost=Decimal(1))),
    ],
)
def test_going_on_without_a_source_comes_with_what_has_run_out(
    spent: dict[str, int | Decimal], added: AddedBudget | None
) -> None:
    left = Amounts(**{**_fields(PLENTY), **spent})
    change = resume_of("progress", left=left, sources=STUCK_ON_ONE, **MOST)
    assert change is not None
    assert (change.blocked_sources[0].name, change.budget) == ("mirror.example", added)


@pytest.mark.parametrize("sources", [STUCK_ON_ONE, []], ids=["source", "no source"])
@pytest.mark.parametrize(
    ("amount", "kind"),
    [("steps", "steps"), ("turns", "steps"), ("seconds", "seconds"), ("cost", "cost"), ("tokens", "cost")],
)
def test_no_resume_is_suggested_that_could_do_nothing(
    amount: str, kind: str, sources: list[AttemptedSource]
) -> None:
    left = Amounts(**{**_fields(PLENTY), amount: 0})
    assert resume_of("budget", left=left, sources=sources, **MOST) is not None
    assert resume_of("budget", left=left, sources=sources, **{**MOST, kind: MOST[kind] * 0}) is None


def test_half_of_a_ceiling_is_an_amount_that_the_form_takes() -> None:
    left = Amounts(**{**_fields(PLENTY), "cost": Decimal(0)})
    change = resume_of("budget", left=left, sources=[], cost=Decimal("0.333333"))
    assert change is not None
    assert change.budget == AddedBudget(cost=Decimal("0.166667"))


def _fields(amounts: Amounts) -> dict[str, int | Decimal]:
    return {name: getattr(amounts, name) for name in amounts.__struct_fields__}
