"""`manage.py demo`: fill an installation with what five tenants' scripted agents did over the last days."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseFault

from runs.replay.account import demo_keys, has_demo
from runs.replay.demo import run_demo
from runs.replay.demo_people import make_people
from runs.replay.demo_tenants import TENANTS, TOTAL
from runs.replay.progress import Progress
from runs.replay.sender import SendFailed
from runs.replay.timing import window_end


class Command(BaseCommand):
    help = "Simulate five tenants' agents over the last days and send their runs, unless that is done."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", help="the gate's address (default: the one that runs on this machine)")

    def handle(self, *args: Any, url: str | None, **options: Any) -> None:
        url = url or settings.GATE_URL
        if not url:
            raise CommandError("Name the gate with --url; none runs on this machine.")
        try:
            self._fill(url)
        except (SendFailed, DatabaseFault) as error:
            raise CommandError(str(error)) from error

    def _fill(self, url: str) -> None:
        if has_demo(TENANTS):
            self.stdout.write("The demo's runs are here already.")
            return
        now = datetime.now(UTC)
        keys = demo_keys(TENANTS, now=now, say=self.stdout.write)
        make_people(self.stdout.write)
        with Progress("Simulating", TOTAL, sys.stderr) as progress:
            tallies = run_demo(TENANTS, url, keys, window_end(now), progress)
        for slug, tally in tallies.items():
            self.stdout.write(f"{slug}: {tally}")
            if not tally.complete:
                raise CommandError("\n".join(["Not everything was taken:", *tally.complaints]))
