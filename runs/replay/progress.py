"""Shows how far a long command is: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TextIO

WIDTH = 30
BETWEEN_BARS_S = 0.1
BETWEEN_LINES_S = 5.0


class Progress:
    """Counts up to about ``total`` on ``stream``: call ``advance`` in its context, often."""

    def __init__(
        self, label: str, total: int, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.done = 0
        self._label = label
        self._total = total
        self._stream = stream
        self._clock = clock
        self._terminal = stream.isatty()
        self._between = BETWEEN_BARS_S if self._terminal else BETWEEN_LINES_S
        self._shown_at = clock()
        self._shown: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown != self.done:
            self._show()
        if self._terminal:
            self._stream.write("\n")
            self._stream.flush()

    def advance(self, count: int = 1) -> None:
        self.done += count
        if self._clock() - self._shown_at >= self._between:
            self._show()

    def _show(self) -> None:
        total = max(self._total, self.done)
        share = self.done / total if total else 1.0
        figures = f"{self.done:,} of {total:,} ({share:.0%})"
        if self._terminal:
            filled = round(WIDTH * share)
            self._stream.write(f"\r{self._label} [{'#' * filled}{'.' * (WIDTH - filled)}] {figures}")
        else:
            self._stream.write(f"{self._label}: {figures}\n")
        self._stream.flush()
        self._shown_at = self._clock()
        self._shown = self.done
