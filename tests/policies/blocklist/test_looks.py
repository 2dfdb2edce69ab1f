from __future__ import annotations

import pytest

from guardops.guard.domains import normal_host
from policies.blocklist.looks import Look, look_of


@pytest.mark.parametrize(
    ("typed", "look"),
    [
        ("mirror.example", Look()),
        ("bücher.example", Look("bücher.example")),
        ("日本のかな.example", Look("日本のかな.example")),
        ("g\u043e\u043egle.example", Look("g\u043e\u043egle.example", "Mixed script")),
        (
            "\u0430\u0440\u0440\u04cf\u0435.example",
            Look("\u0430\u0440\u0440\u04cf\u0435.example", "Looks Latin"),
        ),
        ("пример.example", Look("пример.example")),
    ],
)
def test_domain_looks_as_browsers_show_it(typed: str, look: Look) -> None:
    name = normal_host(typed)
    assert name is not None
    assert look_of(name) == look


def test_label_that_stands_for_nothing_looks_as_it_is() -> None:
    assert look_of("xn--999999999.example").readable == "xn--999999999.example"
