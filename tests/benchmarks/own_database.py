"""A benchmark's own database: made on DATABASE_URL's server, or in an embedded one that lives as long."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql


@contextmanager
def own_database(name: str, *, keep: bool = False) -> Iterator[str]:
    """Yield the URL of an empty database (of the one an earlier run kept, with ``keep``), and set it up.

    DATABASE_URL then names it and Django is ready, so import what reads settings only inside.
    """
    server = os.environ.get("DATABASE_URL")
    with _on_server(server, name, keep) if server else _embedded() as url:
        os.environ["DATABASE_URL"] = url
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "guardops.settings")
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0, skip_checks=True)
        yield url


@contextmanager
def _on_server(server: str, name: str, keep: bool) -> Iterator[str]:
    with psycopg.connect(server, autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
        if known and not keep:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
        if not known or not keep:
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        if not keep:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def _embedded() -> Iterator[str]:
    from guardops.local.postgres import Postgres

    home = Path(tempfile.mkdtemp(prefix="guardops-benchmark-"))
    server = Postgres(home)
    try:
        server.start()
        yield server.url
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
