"""The door that the triggers of `policies.models.fields` watch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from django.db import connection

from guardops.tenants.actors import acting
from policies.models.fields import WRITING

if TYPE_CHECKING:
    from guardops.tenants.actors import System
    from guardops.tenants.models import User


@contextmanager
def publishing(actor: User | System) -> Iterator[None]:
    """Open a transaction in which rows of policies may be written, with ``actor`` in the audit trail."""
    with acting(actor), connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s, true)", [WRITING])
        outer = cursor.fetchone()[0] or ""
        cursor.execute("SELECT set_config(%s, 'on', true)", [WRITING])
        yield
        # Not in a finally: what fails is rolled back, and the setting with it.
        cursor.execute("SELECT set_config(%s, %s, true)", [WRITING, outer])
