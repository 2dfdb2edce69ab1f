"""A whole installation on this machine: the servers, the doors and the workers, and how they are started."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from guardops.local import ports, state
from guardops.local.errors import LocalError, Stopped
from guardops.local.postgres import Postgres
from guardops.local.processes import launched, signal_group, started_at, wait_until_gone
from guardops.local.supervisor import Child, Supervisor
from guardops.local.valkey import Valkey

ROOT = Path(__file__).resolve().parents[2]
_SERVERS, _WORKERS, _DOORS = 1, 3, 4  # waves: the doors stop first, PostgreSQL last
_READY_SECONDS = 120.0
_REMAINS_SECONDS = 20.0


@dataclass(frozen=True)
class Options:
    """What `manage.py up` was asked for."""

    host: str = "127.0.0.1"
    web_port: int = 8000
    gate_port: int = 8001
    demo: bool = False
    database_url: str = ""  # empty: the embedded server
    broker_url: str = ""


class Installation:
    """Brings everything up, keeps it up and takes it down."""

    def __init__(self, home: Path, options: Options, show: Callable[[str, str], None]) -> None:
        self.home = home
        self.options = options
        self._show = show
        self._began = time.monotonic()
        self.supervisor = Supervisor(show, self._write_state)
        self.database_url = options.database_url
        self.database_folder = ""
        self.broker_url = options.broker_url
        self.web_url = ""
        self.gate_url = ""
        self._doors: list[socket.socket] = []

    def run(self) -> None:
        """Start everything, stay until asked to stop, stop everything."""
        signums = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` wants us to outlive the terminal
            signums.append(signal.SIGHUP)
        handlers = {signum: signal.signal(signum, self.supervisor.request_stop) for signum in signums}
        try:
            self._start()
            self.supervisor.run()
        except Stopped:
            pass
        finally:
            self._say("stopping")
            self.supervisor.stop()
            (self.home / "running.json").unlink(missing_ok=True)
            for door in self._doors:
                door.close()
            for signum, handler in handlers.items():
                signal.signal(signum, handler)
            self._say("stopped")

    def _start(self) -> None:
        self._end_remains()
        web = self._open("web", self.options.web_port)
        gate = self._open("gate", self.options.gate_port)
        self.web_url, self.gate_url = ports.url(web, self.options.host), ports.url(gate, self.options.host)
        self._start_servers()
        self._say("bringing the database up to date")
        self.supervisor.run_once(self._manage("setup", ["setup", "--verbosity", "0"], _WORKERS))
        self._say("starting gate, web, fold, worker and beat")
        doors = [
            self._door("gate", gate),
            self._door("web", web),
        ]
        for child in doors:
            self.supervisor.start(child)
        self.supervisor.start(self._manage("fold", ["fold", "--loop"], _WORKERS))
        self.supervisor.start(
            self._celery("worker", "--concurrency", "2", "--without-gossip", "--without-mingle")
        )
        self.supervisor.start(self._celery("beat"))
        for child in doors:
            self.supervisor.wait_ready(child, _READY_SECONDS)
        self._say("ready; Ctrl-C stops it")
        self._show("up", f"  dashboard  {self.web_url}")
        self._show("up", f"  gate       {self.gate_url}")
        if self.options.demo:
            self._say("simulating five tenants' agents over the last 14 days")
            demo = self._manage("demo", ["demo", "--url", self.gate_url], _DOORS)
            demo.restarted = False
            self.supervisor.start(demo)

    def _start_servers(self) -> None:
        """Start PostgreSQL and Valkey, each only where no outside server is named."""
        if not self.database_url:
            self._say("starting PostgreSQL")
            postgres = Postgres(self.home, say=self._say)
            self.database_url = postgres.url
            self.database_folder = str(postgres.place.data)
            self._start_server(
                Child(
                    "postgres",
                    postgres.command,
                    _SERVERS,
                    prepare=postgres.prepare,
                    is_ready=postgres.is_ready,
                    quiet=True,
                    stop_signal=signal.SIGINT,
                    grace=60,
                )
            )
        else:
            self._say("asking the database of DATABASE_URL")
            _demand_database(self.database_url)
        if not self.broker_url:
            self._say("starting Valkey")
            valkey = Valkey(self.home)
            self.broker_url = valkey.url
            self._start_server(
                Child(
                    "valkey",
                    valkey.command,
                    _SERVERS + 1,
                    prepare=valkey.prepare,
                    is_ready=valkey.is_ready,
                    quiet=True,
                )
            )

    def _start_server(self, child: Child) -> None:
        self.supervisor.start(child)
        self.supervisor.wait_ready(child, _READY_SECONDS)

    def _open(self, name: str, port: int) -> socket.socket:
        door = ports.listen(self.options.host, port)
        self._doors.append(door)
        got = door.getsockname()[1]
        if port and got != port:
            self._say(f"port {port} is busy: {name} takes {got}")
        return door

    def _door(self, name: str, door: socket.socket) -> Child:
        child = self._manage(name, [name, "--fd", str(door.fileno())], _DOORS)
        child.pass_fds = (door.fileno(),)
        child.is_ready = lambda: _answers(door, self.options.host)
        return child

    def _manage(self, name: str, arguments: list[str], wave: int) -> Child:
        command = [sys.executable, str(ROOT / "manage.py"), *arguments]
        return Child(name, lambda: launched(command), wave, environment=self._environment(name))

    def _celery(self, name: str, *arguments: str) -> Child:
        command = [sys.executable, "-m", "celery", "--app", "guardops.celery", "--quiet", name, *arguments]
        return Child(name, lambda: launched(command), _WORKERS, environment=self._environment(name))

    def _environment(self, name: str) -> dict[str, str]:
        hosts = {"127.0.0.1", "localhost", "[::1]", self.options.host, socket.gethostname()}
        defaults = {
            "GUARDOPS_HOSTS": ",".join(sorted(hosts)),
            "GUARDOPS_LOG": "text",
            "GUARDOPS_LOG_LEVEL": "WARNING",
            "GUARDOPS_DATABASE_FOLDER": self.database_folder,
            "GUARDOPS_WEB_URL": self.web_url,
        }
        return {
            **defaults,
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "guardops.settings",
            "GUARDOPS_HOME": str(self.home),
            "GUARDOPS_PROCESS": name if name in {"web", "gate", "fold", "worker", "beat"} else "command",
            "GUARDOPS_GATE_URL": self.gate_url,
            "DATABASE_URL": self.database_url,
            "BROKER_URL": self.broker_url,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "PYTHONUNBUFFERED": "1",
        }

    def _end_remains(self) -> None:
        """End what a killed `up` left: its children have had their signal and may still be at it."""
        last = state.last_running(self.home)
        for name, (pid, started) in (last.children if last else {}).items():
            if (
                name == "postgres" or started_at(pid) != started
            ):  # PostgreSQL is waited for by its data folder
                continue
            self._say(f"waiting for the last {name} to end")
            if not wait_until_gone(pid, started, _REMAINS_SECONDS):
                signal_group(pid, signal.SIGKILL)

    def _write_state(self) -> None:
        pid = os.getpid()
        state.write_running(
            self.home,
            state.Running(
                pid=pid,
                started=started_at(pid) or 0,
                children=self.supervisor.pids(),
                database_url=self.database_url,
                broker_url=self.broker_url,
                web_url=self.web_url,
                gate_url=self.gate_url,
            ),
        )

    def _say(self, line: str) -> None:
        self._show("up", f"[{time.monotonic() - self._began:5.1f} s] {line}")


def _demand_database(url: str) -> None:
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.Error as error:
        raise LocalError(f"DATABASE_URL does not answer: {error}") from None


def _answers(door: socket.socket, host: str) -> bool:
    """Ask a door of ours directly: a proxy named in the environment must not come between."""
    address = urlsplit(ports.url(door, host))
    client = HTTPConnection(address.hostname or "", address.port, timeout=2)
    try:
        client.request("GET", "/healthz", headers={"Host": "localhost"})
        return client.getresponse().status < 500
    except (OSError, HTTPException):
        return False
    finally:
        client.close()
