"""The last good bundle on disk: what a process starts from where the server does not answer."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from guardops.guard.bundle import MAX_BYTES, Bundle, BundleError, read_bundle

_log = logging.getLogger("guardops.guard")


class BundleFile:
    """One file a server and key, 0600 in a 0700 folder; its time of change is when it was last confirmed."""

    def __init__(self, folder: Path, url: str, key: str, tenant: str) -> None:
        name = hashlib.sha256("\n".join((url, key, tenant)).encode()).hexdigest()[:16]
        self.path = folder / f"bundle-{name}.json"

    def read(self) -> tuple[Bundle, datetime] | None:
        """Return the bundle and when it was confirmed; None where there is none that proves itself."""
        try:
            with self.path.open("rb") as file:
                confirmed_at = datetime.fromtimestamp(os.fstat(file.fileno()).st_mtime, UTC)
                body = file.read(MAX_BYTES + 1)
            return read_bundle(body, tenant=None), confirmed_at
        except FileNotFoundError:
            return None
        except (OSError, BundleError, OverflowError) as error:
            _log.warning("The bundle in %s is not used: %s", self.path, error)
            return None

    def write(self, body: bytes) -> None:
        """Put a bundle in place of the one before, whole or not at all; a disk that is full only warns."""
        draft = self.path.with_suffix(f".{secrets.token_hex(4)}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(body)
            draft.replace(self.path)
        except OSError as error:
            _log.warning("The bundle can't be kept in %s: %s", self.path, error)
            with suppress(OSError):
                draft.unlink()

    def confirm(self) -> None:
        """Note that the server still means this bundle."""
        with suppress(OSError):
            os.utime(self.path)
