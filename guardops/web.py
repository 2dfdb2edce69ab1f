"""The door for people: Django under waitress, which takes a whole request before it gives it a thread.

Five hundred half-sent bodies therefore cost five hundred sockets and no thread. SIGTERM drains: no new
connection, what is under way is answered, then the process ends.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from waitress.server import BaseWSGIServer, create_server

CONNECTION_LIMIT = 1000
CHANNEL_TIMEOUT = 30  # seconds without a byte
BODY_LIMIT = 1024 * 1024  # bytes; people send forms
DRAIN_SECONDS = 20.0
_STILL_SENDING = 2.0  # seconds: a half request silent for longer is not waited for
_JUST_HEARD = 0.5  # seconds in which a new connection's first bytes may be under way

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def serve(application: Application, door: socket.socket, *, threads: int, behind_proxy: bool = False) -> None:
    """Serve on a listening socket until SIGTERM or Ctrl-C."""
    server = create_server(
        application,
        sockets=[door],
        threads=threads,
        connection_limit=CONNECTION_LIMIT,
        asyncore_use_poll=True,
        channel_timeout=CHANNEL_TIMEOUT,
        max_request_body_size=BODY_LIMIT,
        ident=None,
        clear_untrusted_proxy_headers=not behind_proxy,
    )
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a parent may have us ignore it; run() ends on it
    signal.signal(signal.SIGTERM, lambda signum, frame: _start_drain(server))
    server.run()


def _start_drain(server: BaseWSGIServer) -> None:
    server.accepting = False  # connections wait in the socket's queue for whoever listens next
    server.pull_trigger()
    threading.Thread(target=_drain, args=(server, time.time() + DRAIN_SECONDS), daemon=True).start()


def _drain(server: BaseWSGIServer, deadline: float) -> None:
    while time.time() < deadline and any(map(_is_busy, list(server.active_channels.values()))):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


def _is_busy(channel: Any) -> bool:
    if channel.requests or channel.total_outbufs_len:
        return True
    silent = time.time() - channel.last_activity
    return bool(silent < (_JUST_HEARD if channel.request is None else _STILL_SENDING))
