"""`manage.py up`: everything on this machine, from nothing, in one command."""

from __future__ import annotations

import os
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from guardops import env
from guardops.local import state
from guardops.local.errors import LocalError
from guardops.local.installation import Installation, Options
from guardops.local.lock import only_one


class Command(BaseCommand):
    help = "Start PostgreSQL, Valkey, gate, web, fold, worker and beat; Ctrl-C stops them all."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--demo", action="store_true", help="simulate five tenants' agents, unless that is done"
        )
        parser.add_argument("--host", default="127.0.0.1", help="address of both doors")
        parser.add_argument(
            "--web-port", type=int, default=8000, help="the dashboard's port, or the next free one"
        )
        parser.add_argument(
            "--gate-port", type=int, default=8001, help="the gate's port, or the next free one"
        )

    def handle(
        self, *args: Any, demo: bool, host: str, web_port: int, gate_port: int, **options: Any
    ) -> None:
        wanted = Options(
            host=host,
            web_port=web_port,
            gate_port=gate_port,
            demo=demo,
            database_url=env.text("DATABASE_URL", ""),
            broker_url=env.text("BROKER_URL", ""),
        )
        home = state.folder()
        try:
            with only_one(home):
                Installation(home, wanted, self._show).run()
        except LocalError as error:
            raise CommandError(str(error)) from None

    def _show(self, name: str, line: str) -> None:
        """Write one line; a terminal that has gone must not keep us from stopping in order."""
        try:
            print(f"{name:<9}| {line}", flush=True)
        except OSError:
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (for the rest of the process)
