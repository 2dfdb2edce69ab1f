from __future__ import annotations

import pytest

from guardops.guard.reasons import ALIASES, FAMILY_OF, Family, Reason, canonical, family_of, is_loop, known


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_family(reason: Reason) -> None:
    assert FAMILY_OF[reason] is not Family.OTHER
    assert known(reason.value) is reason


@pytest.mark.parametrize(("alias", "reason"), ALIASES.items())
def test_an_alias_is_its_reason(alias: str, reason: Reason) -> None:
    assert known(alias) is reason
    assert (canonical(alias), family_of(alias)) == (reason.value, FAMILY_OF[reason])


def test_an_unknown_code_is_kept_and_grouped_as_other() -> None:
    assert (canonical("my_own"), family_of("my_own"), known("my_own"), known(None)) == (
        "my_own",
        Family.OTHER,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("code", "loop"),
    [
        ("repeated_call", True),
        ("cycle_period_3", True),
        ("no_progress", True),
        ("source_cap", True),
        ("per_source_cap", True),
        ("tool_retry_exhausted", True),
        ("blocked_source", False),
        ("step_budget", False),
        ("tool_auth_error", False),
        ("my_own", False),
    ],
)
def test_the_loop_family_leaves_out_budgets_errors_and_people(code: str, loop: bool) -> None:
    assert is_loop(code, provider_failure=False) is loop
    assert not is_loop(code, provider_failure=True)
