"""Fields for the response ladder: with which action the guard begins to answer a reason, or a family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardops.guard.fields import PolicyError
from guardops.guard.reasons import FAMILY_OF, Family, Reason
from guardops.guard.rungs import RUNGS, first_rung, read_ladder
from policies.differences import RUNG_WORDS, Inheritance

from .fields import Choices, InheritField

PREFIX = "ladder_"


def _offered(code: str) -> Choices:
    """Return the rungs that the guard lets a reason or a family start on."""
    return [(rung.value, RUNG_WORDS[rung.value]) for rung in RUNGS if _is_allowed(code, rung.value)]


def _is_allowed(code: str, rung: str) -> bool:
    try:
        read_ladder("ladder", {code: rung})
    except PolicyError:
        return False
    return True


FAMILIES = {
    family.value: offered
    for family in Family
    if family is not Family.OTHER and len(offered := _offered(family.value)) > 1
}
REASONS = {reason.value: offered for reason in Reason if len(offered := _offered(reason.value)) > 1}
"""What the guard answers in one way alone is not offered."""


def ladder_fields(inherited: Inheritance) -> dict[str, InheritField]:
    """Return the form's fields, by their names."""
    fields = {}
    for code, offered in (FAMILIES | REASONS).items():
        field = InheritField(label=code.replace("_", " ").capitalize(), choices=offered)
        field.say_inherited(_inherited(code, inherited))
        fields[f"{PREFIX}{code}"] = field
    return fields


def ladder_document(cleaned: Mapping[str, Any]) -> dict[str, str]:
    """Return the ladder as documents have it."""
    return {
        name.removeprefix(PREFIX): value
        for name, value in cleaned.items()
        if name.startswith(PREFIX) and value is not None
    }


def ladder_initial(ladder: Mapping[str, str]) -> dict[str, str]:
    return {f"{PREFIX}{code}": value for code, value in ladder.items()}


def _inherited(code: str, inherited: Inheritance) -> str:
    if inherited.raw(("ladder", code)):
        return inherited.value(("ladder", code)).text
    if code in FAMILIES:
        return "as usual"
    usual = RUNG_WORDS[first_rung(Reason(code)).value].lower()
    return f"as its family, else {usual}" if FAMILY_OF[code].value in FAMILIES else usual
