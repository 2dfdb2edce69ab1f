"""What every test may use: the flush that gets past audit triggers, and the test database's address."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest
from django.db import connection, transaction
from django.db.backends.postgresql.operations import DatabaseOperations


@pytest.fixture(autouse=True, scope="session")
def _flush_audited_tables() -> Iterator[None]:
    """Let the flush after a transactional test truncate tables whose triggers refuse it to all others."""

    def execute_sql_flush(self: DatabaseOperations, sql_list: list[str]) -> None:
        with transaction.atomic(using=self.connection.alias), self.connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            for sql in sql_list:
                cursor.execute(sql)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DatabaseOperations, "execute_sql_flush", execute_sql_flush)
        yield


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """Return the test database's address, for real processes that a transactional test starts."""
    return address_of_database()


def address_of_database() -> str:
    """Return the address of the database that this process is connected to."""
    settings = connection.settings_dict
    query = {key: settings[name] for key, name in (("host", "HOST"), ("port", "PORT")) if settings[name]}
    user = quote(settings["USER"], safe="")
    password = f":{quote(settings['PASSWORD'], safe='')}" if settings["PASSWORD"] else ""
    return f"postgresql://{user}{password}@/{quote(settings['NAME'], safe='')}?{urlencode(query, safe='/')}"
