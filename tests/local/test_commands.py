from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth import authenticate
from django.core.management import call_command
from django.db import connection

from runs.partitions import existing_partitions

pytestmark = pytest.mark.django_db


def said(*command: str, verbosity: int = 1) -> str:
    out = StringIO()
    call_command(*command, stdout=out, verbosity=verbosity)
    return out.getvalue()


def test_setup_prints_the_first_password_once() -> None:
    words = said("setup", verbosity=0).split()
    password = words[words.index("password", words.index("name")) + 1]
    assert authenticate(username="admin", password=password) is not None
    assert said("setup", verbosity=0) == ""


def test_partitions_makes_what_is_missing_and_says_so() -> None:
    missing = max(existing_partitions())
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {missing}")
    assert said("partitions").startswith("1 made: ")
    assert missing in existing_partitions()
    assert said("partitions") == "none missing\n"
