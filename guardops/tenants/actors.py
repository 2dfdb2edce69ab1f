"""Who does something: each writer takes an actor and writes inside ``acting``, so that audit rows name it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import connection, transaction
from structlog.contextvars import get_contextvars

if TYPE_CHECKING:
    from django.db.backends.utils import CursorWrapper

    from .models import User


@dataclass(frozen=True, slots=True)
class System:
    """GuardOps itself: tasks, commands and the first start."""

    name: str = "system"


SYSTEM = System()


@contextmanager
def acting(actor: User | System, **context: str) -> Iterator[None]:
    """Open a transaction whose audit rows carry ``actor``, the request's id and ``context``.

    The triggers read two settings that are local to the transaction. They are set once, by a statement of
    their own, so that raw SQL and COPY are covered as well. An inner ``acting`` counts until it ends.
    """
    details = {"actor": _described(actor), "request_id": get_contextvars().get("request_id", ""), **context}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('pghistory.context_id', true),"
            " current_setting('pghistory.context_metadata', true)"
        )
        outer = [value or "" for value in cursor.fetchone()]
        _set_context(cursor, str(uuid.uuid4()), json.dumps(details))
        yield
        # Not in a finally: what fails is rolled back, and the settings with it.
        _set_context(cursor, *outer)


def _set_context(cursor: CursorWrapper, context_id: str, metadata: str) -> None:
    cursor.execute(
        "SELECT set_config('pghistory.context_id', %s, true),"
        " set_config('pghistory.context_metadata', %s, true)",
        [context_id, metadata],
    )


def _described(actor: User | System) -> dict[str, object]:
    if isinstance(actor, System):
        return {"kind": "system", "name": actor.name}
    if actor.pk is None:
        raise ValueError("Somebody who isn't logged in can't act.")
    return {"kind": "user", "id": actor.pk, "name": actor.get_username()}
