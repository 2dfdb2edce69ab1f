"""`manage.py replay FILE`: run recorded agent runs through the guard and send what it says to a gate."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import Error as DatabaseFault

from guardops.guard.policy import Policy, PolicyError
from runs.replay.account import make_key
from runs.replay.play import Played, Player
from runs.replay.progress import Progress
from runs.replay.report import Report, counted
from runs.replay.sender import Sender, SendFailed
from runs.replay.timing import Calendar, window_end
from runs.replay.traces import TraceError, read_json_object, read_traces


class Command(BaseCommand):
    help = "Run recorded tool calls (JSON lines, gzip or plain) through the guard; send the runs to a gate."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="recorded runs, one JSON object a line")
        parser.add_argument(
            "--tools", type=Path, help="policy overrides as JSON, above all what the tools do"
        )
        parser.add_argument(
            "--tenant", help="slug of the tenant; made in the first organisation where missing"
        )
        parser.add_argument("--url", help="the gate's address (default: the one that runs on this machine)")
        parser.add_argument("--key", help="the tenant's key (default: a new one is made)")
        parser.add_argument(
            "--until", type=datetime.fromisoformat, help="where the 14 days end (default: this hour)"
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="send nothing; needs no server and no database"
        )
        parser.add_argument("--json", action="store_true", help="with --dry-run: one JSON line a run")
        parser.add_argument(
            "--report", action="store_true", help="print what the guard did, by source and job type"
        )

    def handle(self, **options: Any) -> None:
        now = datetime.now(UTC)
        until: datetime = options["until"] or window_end(now)
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        if until > now:
            raise CommandError(f"--until {until.isoformat()} lies in the future.")
        try:
            traces = list(read_traces(options["file"]))
            overrides = read_json_object(options["tools"]) if options["tools"] else {}
            player = Player(Policy.from_mapping(overrides), Calendar(until), tenant=options["tenant"])
        except (TraceError, PolicyError) as error:
            raise CommandError(str(error)) from error
        report = Report()
        runs = counted(map(player.play, traces), report)
        if options["dry_run"]:
            self._print(runs, as_json=options["json"])
        else:
            self._send(runs, len(traces), **options)
            self.stdout.write(f"Sent again with --until {until.isoformat()} the runs have the same ids.")
        if options["report"]:
            out = self.stderr if options["json"] else self.stdout
            out.write("\n".join(report.lines()))

    def _print(self, runs: Iterator[Played], *, as_json: bool) -> None:
        stopped = total = 0
        for run in runs:
            total += 1
            stopped += run.stop is not None
            if as_json:
                self.stdout.write(json.dumps(run.line()))
        if not as_json:
            self.stdout.write(f"{total:,} runs, {stopped:,} of them stopped; nothing was sent.")

    def _send(self, runs: Iterator[Played], total: int, *, tenant: str, url: str, key: str, **_: Any) -> None:
        url = url or settings.GATE_URL
        if not tenant or not url:
            raise CommandError(f"Name the {'gate with --url' if tenant else 'tenant with --tenant'}.")
        try:
            key = key or make_key(tenant, name="replay", now=datetime.now(UTC), say=self.stdout.write)
            with Progress("Replaying", total, sys.stderr) as progress, Sender(url, key) as sender:
                tally = sender.send((run.event for run in runs), progress.advance)
        except (SendFailed, ValidationError, DatabaseFault) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(str(tally))
        if not tally.complete:
            raise CommandError("\n".join(["Not everything was taken:", *tally.complaints]))
