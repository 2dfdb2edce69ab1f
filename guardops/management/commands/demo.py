"""`manage.py demo`: what five tenants' agents did over the last days, and with --live do from now on."""

from __future__ import annotations

import signal
import sys
from datetime import UTC, datetime
from functools import partial
from random import Random
from threading import Event
from typing import Any

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error as DatabaseFault

from guardops.guard.scenarios.roster import jobs
from guardops.guard.scenarios.tarpit import Loopback, serving
from runs.replay.account import demo_key, demo_keys, has_demo
from runs.replay.demo import run_demo
from runs.replay.demo_people import make_people
from runs.replay.demo_reviews import allow_more, review_checkpoints, review_stops
from runs.replay.demo_tenants import TENANTS, TOTAL
from runs.replay.live import Stage
from runs.replay.live_decisions import Decisions
from runs.replay.outbox import Outbox, send_on
from runs.replay.progress import Progress
from runs.replay.sender import SendFailed
from runs.replay.timing import window_end


class Command(BaseCommand):
    help = "Simulate five tenants' agents over the last days and send their runs, unless that is done."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", help="the gate's address (default: the one that runs on this machine)")
        parser.add_argument(
            "--live", action="store_true", help="then go on in real time, until Ctrl-C or SIGTERM"
        )

    def handle(self, *args: Any, url: str | None, live: bool, **options: Any) -> None:
        url = url or settings.GATE_URL
        if not url:
            raise CommandError("Name the gate with --url; none runs on this machine.")
        try:
            self._fill(url)
            if live:
                self._go_on(url)
            else:
                self.stdout.write("In real time the agents go on with: manage.py demo --live")
        except (SendFailed, DatabaseFault) as error:
            raise CommandError(str(error)) from error

    def _fill(self, url: str) -> None:
        if has_demo(TENANTS):
            self.stdout.write("The demo's runs are here already.")
            return
        now = datetime.now(UTC)
        keys = demo_keys(TENANTS, now=now, say=self.stdout.write)
        make_people(self.stdout.write)
        allow_more(TENANTS, now)
        with Progress("Simulating", TOTAL, sys.stderr) as progress:
            tallies = run_demo(TENANTS, url, keys, window_end(now), progress)
        for slug, tally in tallies.items():
            self.stdout.write(f"{slug}: {tally}")
            if not tally.complete:
                raise CommandError("\n".join(["Not everything was taken:", *tally.complaints]))
        review_checkpoints(TENANTS, now, self.stdout.write)
        self.stdout.write(f"{review_stops(TENANTS, now)} stops were reviewed.")

    def _go_on(self, url: str) -> None:
        stop = Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        clock = partial(datetime.now, UTC)
        outbox = Outbox(url, [tenant.slug for tenant in TENANTS], demo_key, self._say)
        with serving() as site, httpx.Client(transport=Loopback(site.port)) as client:
            stage = Stage(TENANTS, jobs(client), Random(), clock())
            self._say("Agents are at work; Ctrl-C stops them.")
            send_on(stage, outbox, stop, clock, self._say, Decisions(stage).look)
        self._say(f"Stopped; {outbox.sent:,} events were sent.")

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
