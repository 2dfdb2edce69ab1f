"""Fields of policy documents, read strictly: what makes no sense is refused with the field's name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

MICRO = 1_000_000
"""Micro-USD in a dollar: money is counted in whole ones."""


class PolicyError(ValueError):
    """A policy that must not be run; ``field`` is the key that is wrong."""

    code = "invalid_policy"

    def __init__(self, field_name: str, message: str) -> None:
        super().__init__(f"{field_name}: {message}")
        self.field = field_name


def micro_usd(amount: object, *, field_name: str = "cost") -> int:
    """Turn USD (int, float, decimal or its text) into whole micro-USD; 0.1 is exactly 100,000."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | str | Decimal):
        raise PolicyError(field_name, "must be an amount in USD")
    try:
        value = Decimal(str(amount)) * MICRO
        if not value.is_finite() or value < 0:
            raise PolicyError(field_name, "must be a finite amount, not negative")
        return int(value.to_integral_value())
    except InvalidOperation as error:
        raise PolicyError(field_name, "must be an amount in USD") from error


def require_number(name: str, value: object, low: float, high: float, *, whole: bool) -> None:
    """Refuse what is no finite number within the bounds, or no whole one where only that will do."""
    kinds = int if whole else int | float
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise PolicyError(name, "must be a whole number" if whole else "must be a number")
    if not math.isfinite(value) or not low <= value <= high:
        raise PolicyError(name, f"must lie between {low:g} and {high:g}")


def read_flag(name: str, value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise PolicyError(name, "must be true or false")
    return value


def read_names(name: str, value: object) -> frozenset[str]:
    """Read a list of names."""
    if isinstance(value, str) or not isinstance(value, Sequence | frozenset | set):
        raise PolicyError(name, "must be a list of names")
    if not all(isinstance(item, str) for item in value):
        raise PolicyError(name, "must be a list of names")
    return frozenset(value)


def read_list(name: str, value: object) -> tuple[Any, ...]:
    """Read a list of anything."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise PolicyError(name, "must be a list")
    return tuple(value)


def read_choice(name: str, value: object, choices: type[StrEnum]) -> Any:
    """Read one of a few words."""
    try:
        return choices(str(value))
    except ValueError as error:
        raise PolicyError(name, f"must be one of {', '.join(choices)}") from error
