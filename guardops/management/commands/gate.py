"""`manage.py gate`: the door for machines."""

from __future__ import annotations

import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from guardops.gate.server import serve
from guardops.local import ports
from guardops.local.errors import LocalError


class Command(BaseCommand):
    help = "Serve the gate under uvicorn; SIGTERM drains. Several processes may share one socket with --fd."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8001)
        parser.add_argument("--fd", type=int, help="serve on this inherited listening socket instead")

    def handle(self, *args: Any, host: str, port: int, fd: int | None, **options: Any) -> None:
        try:
            door = socket.socket(fileno=fd) if fd is not None else ports.listen(host, port)
        except (LocalError, OSError) as error:
            raise CommandError(str(error)) from None
        serve(door)
