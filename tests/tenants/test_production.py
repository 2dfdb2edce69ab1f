from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCTION = {
    "GUARDOPS_PROFILE": "production",
    "GUARDOPS_SECRET_KEY": "a-long-secret-of-many-different-characters-0123456789-abcdef",
    "GUARDOPS_HOSTS": "guardops.example",
    "GUARDOPS_GATE_URL": "https://gate.guardops.example",
    "BROKER_URL": "redis://127.0.0.1:6379/0",
}


def manage(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    # The tests' own settings stay behind, Playwright's leave to block an event loop among them.
    inherited = {name: os.environ[name] for name in ("PATH", "DATABASE_URL")}
    return subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env=inherited | PRODUCTION | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_deployment_checks_find_nothing() -> None:
    result = manage("check", "--deploy", "--fail-level", "WARNING")
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", ["GUARDOPS_SECRET_KEY", "DATABASE_URL"])
def test_production_does_not_start_without_what_it_needs(name: str) -> None:
    result = manage("check", **{name: ""})
    assert result.returncode != 0
    assert f"{name} must be set" in result.stderr or f"{name} must start with" in result.stderr
