"""Where a local installation keeps its state, and what a running one has written there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote

from guardops.local.errors import LocalError
from guardops.local.processes import started_at

_SOCKET_PATH_LIMIT = 107  # bytes, the closing NUL not counted: sun_path holds 108
POSTGRES_PORT = 5432  # only part of the socket's name, but PGPORT must not choose another
_LONGEST_SOCKET = f".s.PGSQL.{POSTGRES_PORT}.lock"


@dataclass(frozen=True)
class Running:
    """A running `manage.py up`: its process, its children and its addresses."""

    pid: int
    started: int
    children: dict[str, tuple[int, int]]
    database_url: str
    broker_url: str
    web_url: str
    gate_url: str


def folder() -> Path:
    """Return the state folder: ``GUARDOPS_HOME`` or ``.guardops`` in the checkout."""
    chosen = os.environ.get("GUARDOPS_HOME")
    return (Path(chosen) if chosen else Path(__file__).parents[2] / ".guardops").resolve()


def private_folder(path: Path) -> Path:
    """Make a folder that is ours alone (0700), or refuse one that somebody else has put there."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except (FileExistsError, NotADirectoryError, PermissionError) as error:
        raise LocalError(f"{path}: {error.strerror}. Set GUARDOPS_HOME to another folder.") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise LocalError(f"{path} belongs to another user; run as that user or set GUARDOPS_HOME.")
    path.chmod(0o700)
    return path


def socket_folder(home: Path) -> Path:
    """Return the folder of the sockets: in the state folder, or a short one where that would be too long."""
    inside = home / "run"
    if len(os.fsencode(inside / _LONGEST_SOCKET)) < _SOCKET_PATH_LIMIT:
        return inside
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return Path("/tmp") / f"guardops-{os.geteuid()}-{digest}"


def postgres_url(sockets: Path) -> str:
    return f"postgresql://guardops@/guardops?host={quote(str(sockets), safe='/')}&port={POSTGRES_PORT}"


def secret_key() -> str:
    """Return the installation's own secret, made once and kept (0600)."""
    if key := os.environ.get("GUARDOPS_SECRET_KEY"):
        return key
    path = private_folder(folder()) / "secret_key"
    draft = path.with_name(f"secret_key.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        return path.read_text()
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(48))
    with contextlib.suppress(FileExistsError):  # another process was first: its key counts
        os.link(draft, path)
    draft.unlink()
    return path.read_text()


def write_running(home: Path, running: Running) -> None:
    """Tell other terminals of this installation where everything is."""
    draft = home / "running.json.new"
    draft.write_text(json.dumps(asdict(running), indent=1))
    draft.replace(home / "running.json")


def last_running(home: Path) -> Running | None:
    """Return what the last `up` wrote, whether or not it still runs."""
    try:
        fields = json.loads((home / "running.json").read_text())
        fields["children"] = {name: (pid, started) for name, (pid, started) in fields["children"].items()}
        return Running(**fields)
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError, TypeError, KeyError):
        return None


def running(home: Path | None = None) -> Running | None:
    """Return the running `up` of this installation, None if it is not running."""
    last = last_running(home or folder())
    return last if last and started_at(last.pid) == last.started else None


def database_url() -> str:
    """Return where PostgreSQL is, or where `manage.py up` would put it."""
    now = running()
    return now.database_url if now else postgres_url(socket_folder(folder()))


def broker_url() -> str:
    """Return where the broker is; empty where nothing runs."""
    now = running()
    return now.broker_url if now else ""


def gate_url() -> str:
    """Return the address of the running gate; empty where nothing runs."""
    now = running()
    return now.gate_url if now else ""


def web_url() -> str:
    """Return the address of the running dashboard; empty where nothing runs."""
    now = running()
    return now.web_url if now else ""
