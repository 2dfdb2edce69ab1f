"""`manage.py gate`: the door for machines."""

from __future__ import annotations

import gc
import sys
from typing import Any

import uvicorn
from django.core.management.base import BaseCommand, CommandParser

KEEP_ALIVE_SECONDS = 75  # longer than the client's 30: the client closes first, and never into a request
DRAIN_SECONDS = 15
BACKLOG = 2048
# A request makes some hundred thousand objects that hold no cycle; walking them doubles what decoding costs.
GARBAGE_THRESHOLDS = (500_000, 20, 100)
# The loop takes a body in some forty pieces, and waits this long for each while another thread decodes.
SWITCH_SECONDS = 0.001


class Command(BaseCommand):
    help = "Serve the gate under uvicorn; SIGTERM drains. Several processes may share one socket with --fd."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8001)
        parser.add_argument("--fd", type=int, help="serve on this inherited listening socket instead")

    def handle(self, *args: Any, host: str, port: int, fd: int | None, **options: Any) -> None:
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        sys.setswitchinterval(SWITCH_SECONDS)
        uvicorn.run(
            "guardops.gate:app",
            host=host,
            port=port,
            fd=fd,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            lifespan="on",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )
