from __future__ import annotations

from django.db.models import TextChoices


class Role(TextChoices):
    """What a member may do; each role includes the ones before it."""

    VIEWER = "viewer", "Viewer"
    REVIEWER = "reviewer", "Reviewer"
    ADMIN = "admin", "Admin"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


class KeyState(TextChoices):
    """Whether a key works."""

    LIVE = "live", "In use"
    EXPIRED = "expired", "Expired"
    REVOKED = "revoked", "Revoked"


class InvitationState(TextChoices):
    """Whether an invitation can be accepted."""

    OPEN = "open", "Open"
    ACCEPTED = "accepted", "Accepted"
    REVOKED = "revoked", "Revoked"
    EXPIRED = "expired", "Expired"


class Scope(TextChoices):
    """What a key may do."""

    EVENTS_WRITE = "events:write", "Send events"
    EVENTS_BACKFILL = "events:backfill", "Send events of the past"
    BUNDLE_READ = "bundle:read", "Read policies"
    CHECKPOINTS = "checkpoints", "Open checkpoints and take decisions"
    BUDGETS = "budgets", "Share budgets"
