"""Listen where it was asked for, or on the next port where that one is busy."""

from __future__ import annotations

import errno
import socket

from guardops.local.errors import LocalError

_TRIES = 50


def listen(host: str, port: int, *, backlog: int = 1024) -> socket.socket:
    """Return a listening socket on the first free port from ``port`` on (0: any).

    The supervisor keeps it and lends it to each child in turn, so clients wait while a child restarts.
    """
    family, address = _resolve(host)
    for candidate in range(port, min(port + _TRIES, 65536)):
        door = socket.socket(family, socket.SOCK_STREAM)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((address, candidate))
            door.listen(backlog)
        except OSError as error:
            door.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise LocalError(f"Cannot listen on {host}:{candidate}: {error.strerror}.") from None
        else:
            return door
    raise LocalError(f"No free port from {port} to {port + _TRIES - 1} on {host}.")


def _resolve(host: str) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise LocalError(f"{host} is no address of this machine: {error.strerror}.") from None
    family, _, _, _, address = found[0]
    return family, str(address[0])


def url(door: socket.socket, host: str) -> str:
    """Return the address people and agents of this machine can use for a listening socket."""
    port = door.getsockname()[1]
    if host in {"", "0.0.0.0", "::"}:
        host = "127.0.0.1" if door.family == socket.AF_INET else "[::1]"
    elif ":" in host:
        host = f"[{host}]"
    return f"http://{host}:{port}"
