"""Sessions in the database, for cookies that anybody may write."""

from __future__ import annotations

from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import VALID_KEY_CHARS


class SessionStore(db.SessionStore):
    """A key that no session ever had opens none; it is not asked for, since it may be no storable text."""

    def __init__(self, session_key: str | None = None) -> None:
        super().__init__(None if set(session_key or "") - set(VALID_KEY_CHARS) else session_key)
