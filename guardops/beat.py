"""A Celery beat that ticks only while it holds an advisory lock: two beats don't double the work."""

from __future__ import annotations

from typing import Any

from celery.beat import Scheduler
from celery.utils.log import get_logger
from django.db import DatabaseError, connection

LOCK = 4_701_002  # pg_advisory_lock key; a session's, so it goes when its holder dies
_CHECK_SECONDS = 5.0

_log = get_logger(__name__)


class SingleScheduler(Scheduler):  # type: ignore[misc]
    """Keeps its schedule in memory: every entry is due by the clock, and what runs late runs at once."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._session = connection.copy()  # nothing else may close it
        self._holds = False
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        self.install_default_entries(self.data)
        self.merge_inplace(self.app.conf.beat_schedule)

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due, if we are the one who sends; return the seconds until the next look."""
        if not self._hold_lock():
            return _CHECK_SECONDS
        return min(float(super().tick(*args, **kwargs)), _CHECK_SECONDS)

    def close(self) -> None:
        self._session.close()
        super().close()

    def _hold_lock(self) -> bool:
        """Take the lock or make sure that the session that took it lives."""
        try:
            with self._session.cursor() as cursor:
                cursor.execute("SELECT TRUE" if self._holds else f"SELECT pg_try_advisory_lock({LOCK})")
                holds = bool(cursor.fetchone()[0])
        except DatabaseError as error:
            _log.warning("beat cannot reach the database: %s", error)
            self._session.close()
            holds = False
        if holds != self._holds:
            _log.info("beat %s the lock", "holds" if holds else "lost")
        self._holds = holds
        return holds
