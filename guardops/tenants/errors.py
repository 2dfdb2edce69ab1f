"""Errors that people and machines may see: each has a stable ``code`` and a message in plain words."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar


class GuardOpsError(Exception):
    """The root of all errors that are somebody's to solve; ``code`` stays when the wording changes."""

    default_code: ClassVar[str] = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code


class Unauthenticated(GuardOpsError):
    """No key, or one that doesn't count: ``unauthenticated``, ``key_revoked`` or ``key_expired``."""

    default_code = "unauthenticated"


class Forbidden(GuardOpsError):
    """The key is good, but not for this: ``missing_scope`` or ``unknown_tenant``."""

    default_code = "forbidden"


class InvalidKey(GuardOpsError):
    """A key can't be made or changed as asked."""

    default_code = "invalid_key"


class InvalidMembership(GuardOpsError):
    """A person can't have this role there."""

    default_code = "invalid_membership"


class InvalidInvitation(GuardOpsError):
    """An invitation can't be made, or doesn't count.

    The codes: ``unknown``, ``accepted``, ``revoked``, ``expired``, ``void`` where its sender lost the right.
    """

    default_code = "invalid_invitation"


class EditedMeanwhile(GuardOpsError):
    """Somebody else has changed what was being edited."""

    default_code = "edited_meanwhile"


class TooManyTries(GuardOpsError):
    """Something was tried too often; ``until`` is when the next try is looked at."""

    default_code = "too_many_tries"

    def __init__(self, until: datetime) -> None:
        super().__init__("Too many tries.")
        self.until = until


class InvalidLink(GuardOpsError):
    """A link to a new password doesn't count."""

    default_code = "invalid_link"
