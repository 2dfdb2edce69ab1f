"""Loaded with ``-p tests.plugin``: the environment and the database, before Django reads its settings.

Where DATABASE_URL is set the tests use that server; elsewhere one embedded PostgreSQL lives for the session.
With CI set, a skipped test fails the session: what was not run has not passed.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

OWN_SERVER = "GUARDOPS_TESTS_OWN_SERVER"  # tells a process of the suite that DATABASE_URL is its parent's
SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests() -> Generator[None]:
    if os.environ.get("PYTEST_XDIST_WORKER"):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in workers, and by what they start
    os.environ["GUARDOPS_PROFILE"] = "test"
    os.environ["GUARDOPS_SECRET_KEY"] = "only-for-tests-" + "0123456789abcdef" * 3
    home = Path(tempfile.mkdtemp(prefix="guardops-tests-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ["GUARDOPS_HOME"] = str(home)  # what runs in the checkout is none of ours
    if not os.environ.get("DATABASE_URL") or os.environ.get(OWN_SERVER):
        _start_postgres(home)
    return (yield)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Spread the whole suite over two processes; a few named tests, or a server of one's own, take one.

    Each process has its own server: fold waits for every open transaction of a cluster, another's tests' too.
    """
    named = any(not arg.startswith("-") for arg in config.invocation_params.args)
    return 0 if named or not os.environ.get(OWN_SERVER) else 2


def _start_postgres(home: Path) -> None:
    from guardops.local.postgres import Postgres

    server = Postgres(home, durable=False)
    atexit.register(server.stop)  # runs before the folder is removed, after Ctrl-C too
    server.start()
    os.environ["DATABASE_URL"] = server.url
    os.environ[OWN_SERVER] = "1"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the browser last: once Playwright runs, the thread has a running loop until the session ends."""
    items.sort(key=_drives_a_browser)  # stable: otherwise the order stays random
    if not SHARED.is_dir():
        absent = pytest.mark.skip(reason="needs the folder shared beside the checkout")
        for item in items:
            if item.get_closest_marker("shared"):
                item.add_marker(absent)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if _drives_a_browser(item):
        os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # only from here on: elsewhere it would hide mistakes


def _drives_a_browser(item: pytest.Item) -> bool:
    return item.path.is_relative_to(Path(__file__).parent / "browser")


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Write out what can't be sent from a process of the suite to the first: half a surrogate ends it."""
    return _sendable((yield))


def _sendable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {name: _sendable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_sendable(item) for item in value])
    return value


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", ())) if reporter else 0
    if os.environ.get("CI") and skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line(f"\nCI is set and {skipped} tests were skipped: the session fails.", red=True)
