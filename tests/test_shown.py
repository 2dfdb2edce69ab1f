"""Values and other people's text as they are written on pages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.template import Context, Template
from django.utils import timezone

from guardops import shown

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


def render(source: str, **context: object) -> str:
    return Template("{% load shown %}" + source).render(Context(context))


@pytest.mark.parametrize(
    ("char", "name"),
    [
        ("\u202e", "U+202E"),  # right-to-left override
        ("\u2066", "U+2066"),  # isolate
        ("\u200b", "U+200B"),  # zero-width space
        ("\u200d", "U+200D"),  # zero-width joiner
        ("\ufeff", "U+FEFF"),
        ("\u00ad", "U+00AD"),  # soft hyphen
        ("\x1b", "U+001B"),  # begins a terminal's escape sequence
        ("\x00", "U+0000"),
        ("\r", "U+000D"),
        ("\u2028", "U+2028"),
        ("\u3164", "U+3164"),  # a letter without ink
        ("\ufe0f", "U+FE0F"),
        ("\U000e0041", "U+E0041"),  # a tag, invisible ASCII
        ("\U000e0100", "U+E0100"),
        ("\ue000", "U+E000"),
        ("\ud800", "U+D800"),
    ],
)
def test_unseen_character_is_named(char: str, name: str) -> None:
    assert shown.visible_text(f"a{char}b") == f"a⟦{name}⟧b"


@pytest.mark.parametrize("text", ["", "plain", "two\nlines\tand a tab", "Ünïcödé 漢字 עברית 🙂", "⟦U+202E⟧"])
def test_text_that_shows_stays_as_it_is(text: str) -> None:
    assert shown.visible_text(text) == text


def test_visible_text_is_escaped_and_isolated() -> None:
    html = render("{{ text|visible }}", text='<img src=x onerror="alert(1)">\u202eabc')

    assert html == (
        '<bdi>&lt;img src=x onerror=&quot;alert(1)&quot;&gt;<span class="unseen">⟦U+202E⟧</span>abc</bdi>'
    )


def test_visible_text_in_attributes_holds_no_markup() -> None:
    assert render('<i title="{{ text|visible_text }}">', text='"\u200b>') == '<i title="&quot;⟦U+200B⟧&gt;">'


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0", "$0.00"),
        ("0.412", "$0.412"),
        ("0.0000412", "$0.000041"),
        ("4.1", "$4.10"),
        ("99.994", "$99.99"),
        ("1287.4", "$1,287"),
        ("-0.061", "−$0.061"),
    ],
)
def test_money_keeps_the_digits_that_matter(amount: str, text: str) -> None:
    assert shown.money(Decimal(amount)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.0784, "7.8 %"), (0.0002, "< 0.1 %"), (0.9996, "> 99.9 %")],
)
def test_share_never_rounds_to_none_or_all(value: float, text: str) -> None:
    assert shown.share(value).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (12, "12 s"), (212, "3 min 32 s"), (7200, "2 h"), (7201, "2 h"), (187_200, "2 d 4 h")],
)
def test_duration_says_the_two_largest_units(seconds: int, text: str) -> None:
    assert shown.duration(timedelta(seconds=seconds)).replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    ("before", "text"),
    [(3, "just now"), (59, "59 s ago"), (480, "8 min ago"), (-7300, "in 2 h"), (200_000, "2 d ago")],
)
def test_distance_is_said_in_its_largest_unit(before: int, text: str) -> None:
    assert shown.ago(NOW - timedelta(seconds=before), NOW).replace("\u00a0", " ") == text


def test_moment_is_relative_and_absolute_with_its_zone() -> None:
    moment = NOW - timedelta(minutes=8)
    with timezone.override("Asia/Kathmandu"):
        html = render("{% when moment %}", moment=moment, as_of=NOW)

    assert 'datetime="2026-03-14T15:01:26.000+00:00"' in html
    assert "8\u00a0min ago" in html
    assert "20:46:26 +0545" in html


def test_moment_of_another_day_names_the_day() -> None:
    html = render("{% when moment %}", moment=NOW - timedelta(days=80), as_of=NOW)

    assert "24 Dec 2025 15:09:26 UTC" in html


def test_missing_values_are_dashes() -> None:
    source = "{{ x|count }}{{ x|number }}{{ x|money }}{{ x|share }}{{ x|milliseconds }}{% when x %}"

    assert render(source, x=None) == "–" * 6


@pytest.mark.parametrize(
    "text", ["plain", "re\u202esearch", "\u200b", "a\u2066b\U000e0041", "⟦U+0041⟧", "⟦x⟧"]
)
def test_text_that_was_shown_comes_back_as_it_was(text: str) -> None:
    assert shown.from_visible(shown.visible_text(text)) == text


@pytest.mark.parametrize("text", ["⟦U+0000⟧", "⟦U+D800⟧", "⟦U+110000⟧", "⟦U+FFFFFF⟧"])
def test_character_that_no_text_can_hold_stays_written_out(text: str) -> None:
    assert shown.from_visible(text) == text
