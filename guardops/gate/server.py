"""The gate under uvicorn, on a listening socket that other processes may share."""

from __future__ import annotations

import asyncio
import gc
import resource
import socket
import sys

import uvicorn

KEEP_ALIVE_SECONDS = 75  # longer than the client's 30: the client closes first, and never into a request
DRAIN_SECONDS = 15
# A connection that was just accepted has this long to send its request before the server closes it as idle.
FRESH_SECONDS = 0.5
BACKLOG = 2048
# A request makes some hundred thousand objects that hold no cycle; walking them doubles what decoding costs.
GARBAGE_THRESHOLDS = (500_000, 20, 100)
# The loop takes a body in some forty pieces, and waits this long for each while another thread decodes.
SWITCH_SECONDS = 0.001


class Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, answer what was accepted, then end; others on the socket take what comes."""
        for server in self.servers:
            server.close()
        await asyncio.sleep(FRESH_SECONDS)
        await super().shutdown(sockets)


def serve(door: socket.socket) -> None:
    """Serve on a listening socket until SIGTERM or Ctrl-C."""
    _take_all_files()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        "guardops.gate:app",
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
    Server(config).run(sockets=[door])


def _take_all_files() -> None:
    """Take as many open files as the machine allows: a guard that waits holds one, and 1,024 are usual."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
