"""Where a local installation keeps its state, and what a running one has written there."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def folder() -> Path:
    """Return the state folder: ``GUARDOPS_HOME`` or ``.guardops`` in the checkout."""
    return Path(os.environ.get("GUARDOPS_HOME") or Path(__file__).resolve().parents[2] / ".guardops")


def secret_key() -> str:
    """Return the installation's own secret, made once and kept (0600)."""
    if key := os.environ.get("GUARDOPS_SECRET_KEY"):
        return key
    path = folder() / "secret_key"
    try:
        return path.read_text()
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_urlsafe(48))
        return path.read_text()


def database_url() -> str:
    return os.environ.get("DATABASE_URL", "postgresql:///guardops")


def broker_url() -> str:
    return os.environ.get("BROKER_URL", "")


def gate_url() -> str:
    return os.environ.get("GUARDOPS_GATE_URL", "")
