"""Hears of new revisions, on a connection of its own that lives as long as the gate."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import connection
from psycopg import sql

from policies.publish.bundles import CHANNEL

if TYPE_CHECKING:
    from .hub import Hub

log = logging.getLogger(__name__)

AGAIN_SECONDS = 1.0


async def listen(hub: Hub) -> None:
    """Tell the hub of every notification, for ever; a connection that is lost is made again."""
    while True:
        try:
            await _listen(hub)
        except (psycopg.Error, OSError) as error:
            log.warning("not listening for bundles: %s", error)
        await asyncio.sleep(AGAIN_SECONDS)


async def _listen(hub: Hub) -> None:
    async with await psycopg.AsyncConnection.connect(**_parameters(), autocommit=True) as session:
        await session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
        # Only now: whatever was published before is read, whatever comes after is heard.
        hub.hear_anything()
        async for notification in session.notifies():
            tenant_id, _, _ = notification.payload.partition(" ")
            if tenant_id.isdigit():
                hub.hear(int(tenant_id))


def _parameters() -> dict[str, Any]:
    """Return Django's connection parameters, with keep-alives that notice a server that is gone."""
    parameters = dict(connection.get_connection_params())
    for ours in ("context", "cursor_factory", "prepare_threshold", "pool"):
        parameters.pop(ours, None)
    return parameters | {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
