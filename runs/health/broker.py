"""How many tasks wait in the broker; asked with a short patience, since it may be frozen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from kombu.connection import Connection

QUEUE = "celery"
SECONDS = 1.0
_NOT_AGAIN_S = 10.0


def read_queue(clock: Callable[[], float] = time.monotonic) -> int | None:
    """Return how many tasks wait; None where the broker does not answer, which is not asked again at once."""
    global _away
    if clock() < _away:
        return None
    try:
        waiting = _ask()
    except OSError:
        waiting = None
    _away = clock() + _NOT_AGAIN_S if waiting is None else 0.0
    return waiting


_away = 0.0


def _ask() -> int | None:
    options = {"socket_timeout": SECONDS, "socket_connect_timeout": SECONDS, "max_retries": 0}
    redis = settings.BROKER_URL.startswith("redis")
    given = {"connect_timeout": SECONDS, "transport_options": options if redis else {}}
    broker: Any
    with Connection(settings.BROKER_URL, **given) as broker:  # type: ignore[no-untyped-call]
        try:
            channel: Any = broker.channel()
            try:
                return int(channel.queue_declare(QUEUE, passive=True).message_count)
            except broker.channel_errors:
                return 0  # nothing has ever waited there
        except broker.connection_errors:
            return None
