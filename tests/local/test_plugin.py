"""The tests' own plumbing, tried on a session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def session(folder: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_x.py").write_text(code)
    inherited = {name: value for name, value in os.environ.items() if name not in ("CI", "DATABASE_URL")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(CHECKOUT / "pyproject.toml"), str(folder)],
        cwd=CHECKOUT,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("ci", "code"), [("", 0), ("true", 1)])
def test_a_skipped_test_fails_the_session_in_ci_only(tmp_path: Path, ci: str, code: int) -> None:
    done = session(tmp_path, "import pytest\ndef test_x(): pytest.skip('why')\n", CI=ci)
    assert done.returncode == code, done.stdout + done.stderr
    assert "1 skipped" in done.stdout.splitlines()[-1]
    assert ("1 tests were skipped" in done.stdout) is bool(ci)


def test_a_session_without_a_database_gets_one_of_its_own_and_leaves_nothing(tmp_path: Path) -> None:
    code = (
        "import os, pytest\n"
        "from django.db import connection\n"
        "@pytest.mark.django_db\n"
        "def test_x():\n"
        "    with connection.cursor() as cursor:\n"
        "        cursor.execute('SHOW fsync')\n"
        "        print('fsync', cursor.fetchone())\n"
        "    print('url', os.environ['DATABASE_URL'])\n"
        "    assert False\n"
    )
    done = session(tmp_path, code)
    assert "fsync ('off',)" in done.stdout
    url = next(line for line in done.stdout.splitlines() if line.startswith("url "))
    assert not Path(url.partition("host=")[2]).parent.exists()


def test_the_network_is_closed_but_for_this_machine(tmp_path: Path) -> None:
    code = "import socket\ndef test_x(): socket.create_connection(('192.0.2.1', 80), 1)\n"
    assert "SocketConnectBlockedError" in session(tmp_path, code).stdout
