"""Hears what the database tells a gate, on a connection of its own that lives as long as the gate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from django.db import connection
from psycopg import sql

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0


async def listen(heard: Mapping[str, Callable[[str], None]], missed: Callable[[], None]) -> None:
    """Hand every notification of a channel to who hears it, for ever; a lost connection is made again.

    ``missed`` is called whenever notifications may have been missed.
    """
    while True:
        try:
            await _listen(heard, missed)
        except (psycopg.Error, OSError) as error:
            log.warning("not listening for news: %s", error)
        await asyncio.sleep(AGAIN_SECONDS)


async def _listen(heard: Mapping[str, Callable[[str], None]], missed: Callable[[], None]) -> None:
    async with await psycopg.AsyncConnection.connect(**_parameters(), autocommit=True) as session:
        for channel in heard:
            await session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        missed()  # only now: whatever came before is read, whatever comes after is heard
        async for notification in session.notifies():
            heard[notification.channel](notification.payload)


def _parameters() -> dict[str, Any]:
    """Return Django's connection parameters, with keep-alives that notice a server that is gone."""
    parameters = dict(connection.get_connection_params())
    for ours in ("context", "cursor_factory", "prepare_threshold", "pool"):
        parameters.pop(ours, None)
    return parameters | {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
