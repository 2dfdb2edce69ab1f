from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.test import Client
from pytest_django import Settings

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


def test_people_are_sent_to_https_and_probes_are_not(client: Client, settings: Settings) -> None:
    settings.SECURE_SSL_REDIRECT = True
    assert client.get("/login/")["Location"] == "https://testserver/login/"
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(("trusted", "status"), [(("HTTP_X_FORWARDED_PROTO", "https"), 200), (None, 301)])
def test_a_proxys_word_counts_only_where_it_is_trusted(
    client: Client, settings: Settings, trusted: tuple[str, str] | None, status: int
) -> None:
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = trusted
    assert client.get("/login/", headers={"X-Forwarded-Proto": "https"}).status_code == status
