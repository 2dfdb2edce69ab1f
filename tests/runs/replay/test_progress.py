from __future__ import annotations

import io

from runs.replay.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_bar_that_is_drawn_over() -> None:
    stream, seconds = Terminal(), iter(range(100))

    with Progress("Sending", 4, stream, clock=lambda: next(seconds)) as bar:
        bar.advance(2)
        bar.advance(2)

    first, second = stream.getvalue().removesuffix("\n").split("\r")[1:]
    assert first == "Sending [###############...............] 2 of 4 (50%)"
    assert second.endswith("4 of 4 (100%)")


def test_elsewhere_there_are_lines_every_few_seconds_and_one_at_the_end() -> None:
    now = [0.0]
    stream = io.StringIO()

    with Progress("Sending", 1_000, stream, clock=lambda: now[0]) as lines:
        for second in range(10):
            now[0] = second
            lines.advance(100)

    assert stream.getvalue().splitlines() == [
        "Sending: 600 of 1,000 (60%)",
        "Sending: 1,000 of 1,000 (100%)",
    ]


def test_nothing_to_do_is_done() -> None:
    stream = io.StringIO()

    with Progress("Sending", 0, stream, clock=lambda: 0.0):
        pass

    assert stream.getvalue() == "Sending: 0 of 0 (100%)\n"
