"""`manage.py fold`: counts runs into the roll-ups; one process for an installation, supervised."""

from __future__ import annotations

import signal
from threading import Event
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from runs.rollup.fold import ForeignCluster, fold_once
from runs.rollup.loop import fold_until
from runs.rollup.rebase import rebase_marks
from runs.rollup.recount import recount


class Command(BaseCommand):
    help = "Count what guards have sent into the roll-ups that the pages read."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--loop", action="store_true", help="count every second until SIGTERM")
        what.add_argument("--once", action="store_true", help="count all there is, say how far, and end")
        what.add_argument("--verify", action="store_true", help="count all runs anew and compare")
        what.add_argument("--rebase", action="store_true", help="adopt the cluster a dump was restored in")

    def handle(self, *args: Any, loop: bool, once: bool, verify: bool, rebase: bool, **options: Any) -> None:
        try:
            if loop:
                self._loop()
            elif once:
                self._once()
            elif verify:
                self._verify()
            else:
                self.stdout.write(f"Marks re-based; {rebase_marks():,} runs are to be counted.")
        except ForeignCluster as error:
            raise CommandError(error.message) from None

    def _loop(self) -> None:
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        fold_until(stop, timezone.now)

    def _once(self) -> None:
        rows = 0
        while True:
            report = fold_once(timezone.now())
            rows += report.rows
            if not report.more:
                break
        if report.busy:
            raise CommandError("Another fold is at work.")
        self.stdout.write(f"Counted {rows:,} runs; {report.pending:,} wait for open transactions.")

    def _verify(self) -> None:
        differences = recount()
        for found in differences:
            self.stderr.write(f"{found.table}: {found.stored} rows differ from {found.counted} counted anew.")
        if differences:
            raise CommandError("The roll-ups differ from the runs.")
        self.stdout.write("The roll-ups equal the runs.")
