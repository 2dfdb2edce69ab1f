"""What an agent process is told by its environment: where to report, with which key, where to keep things."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import httpx

from guardops.guard.client import PolicyClient
from guardops.guard.delivery import Delivery
from guardops.guard.desk import Desk
from guardops.guard.memory_store import MemoryStore
from guardops.guard.reporter import Pace, Reporter
from guardops.guard.spool import Spool, make_private
from guardops.guard.sqlite import SqliteStore
from guardops.guard.stores import Store

URL = "GUARDOPS_URL"
KEY = "GUARDOPS_KEY"
STATE = "GUARDOPS_STATE"

_log = logging.getLogger("guardops.guard")


class SettingsError(ValueError):
    """A variable of the environment that is missing or makes no sense; the text says what to do."""

    code = "invalid_settings"


@dataclass(frozen=True, slots=True)
class Settings:
    """Where a guard reports to, and the folder that it keeps its state in."""

    url: str
    key: str = field(repr=False)
    state: Path
    tenant: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str], tenant: str | None = None) -> Settings:
        """Read the environment. Raises :class:`SettingsError`."""
        url, key = environ.get(URL, "").strip(), environ.get(KEY, "").strip()
        if not url or not key:
            missing = " and ".join(name for name, value in ((URL, url), (KEY, key)) if not value)
            raise SettingsError(
                f"Set {missing}: {URL} is the gate's address, {KEY} an API key that may send events. "
                "The Connect page shows both."
            )
        return cls(_address(url), _header_value(key), state_folder(environ), tenant)

    def store(self) -> Store:
        """Return the store for what outlives a run: a file, or memory where there is no folder to be had."""
        try:
            make_private(self.state)
        except OSError as error:
            _log.warning(
                "The folder %s (%s) can't be used (%s): what runs have done is kept in memory, and a restart "
                "forgets it.",
                self.state,
                STATE,
                error,
            )
            return MemoryStore()
        return SqliteStore(self.state / "runs.sqlite3")

    def reporter(self, pace: Pace | None = None) -> Reporter:
        """Return a reporter with a spool of its own for this gate and tenant."""
        spool = Spool(self.state / "spool" / self.destination)
        return Reporter(spool, Delivery(self.url, self.key), pace=pace)

    def desk(self) -> Desk:
        """Return where this gate is asked what people decided."""
        return Desk(self.url, self.key, tenant=self.tenant or "")

    def policies(self) -> PolicyClient:
        """Return a client for this gate and tenant, which keeps the last good bundle in the folder."""
        return PolicyClient(self.url, self.key, tenant=self.tenant or "", folder=self.state)

    @property
    def destination(self) -> str:
        """The name of the spool: events wait for the gate and the tenant that they are meant for.

        An event that names its tenant may go with any key; else the key's public part says whose it is.
        """
        whose = f"tenant:{self.tenant}" if self.tenant else f"key:{self.key.rpartition('_')[0] or self.key}"
        return sha256(f"{self.url} {whose}".encode()).hexdigest()[:16]


def state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for state: the one that is set, or the user's usual place for it."""
    if named := environ.get(STATE, "").strip():
        return Path(named).expanduser()
    if usual := environ.get("XDG_STATE_HOME", ""):
        return Path(usual) / "guardops"
    try:
        return Path.home() / ".local" / "state" / "guardops"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"guardops-{os.geteuid()}"


def _address(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise SettingsError(f"{URL} is no URL: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise SettingsError(f"{URL} must be an address such as https://gate.example, not {url!r}.")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise SettingsError(f"{URL} is the gate's address alone, without a user, a query or a fragment.")
    return url.rstrip("/")


def _header_value(key: str) -> str:
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SettingsError(f"{KEY} holds characters that no key has.")
    return key
