"""Rotation of keys: a second key takes over while the first one works on until its end."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from .actors import System, acting
from .errors import InvalidKey
from .keys import create_key
from .models import ApiKey

if TYPE_CHECKING:
    from .models import User

GRACES = {"1h": timedelta(hours=1), "1d": timedelta(days=1), "7d": timedelta(days=7)}
"""How long the old key may work on, by the name that a form sends."""


def rotate_key(
    key: ApiKey,
    *,
    grace: timedelta,
    actor: User | System,
    now: datetime,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Make a key with the name, tenants and scopes of ``key``, which ends after ``grace`` at the latest.

    Returns the new key and its plain text. At most two keys of a line work at once: raises InvalidKey, with
    code ``not_live`` where ``key`` no longer works, ``already_rotated`` where another takes over from it, and
    ``rotation_open`` where it takes over itself from one that still works.
    """
    with acting(actor):
        # Locked: of two people who rotate at once, the second is told that it was done.
        held = ApiKey.objects.live(now).select_for_update().filter(pk=key.pk).first()
        if held is None:
            raise InvalidKey(f"The key {key} no longer works; create a new one.", code="not_live")
        _check_two_at_most(held, now)
        successor, plain = create_key(
            organisation=held.organisation,
            tenants=list(held.tenants.all()),
            name=held.name,
            scopes=held.scopes,
            actor=actor,
            now=now,
            expires_at=expires_at,
            predecessor=held,
        )
        held.expires_at = min(now + grace, held.expires_at or now + grace)
        held.save(update_fields=["expires_at"])
    key.expires_at = held.expires_at
    return successor, plain


def _check_two_at_most(key: ApiKey, now: datetime) -> None:
    taking_over = key.successors.filter(revoked_at=None).first()
    if taking_over is not None:
        raise InvalidKey(f"The key {taking_over} takes over from {key} already.", code="already_rotated")
    if key.predecessor_id and ApiKey.objects.live(now).filter(pk=key.predecessor_id).exists():
        raise InvalidKey(
            f"The key before this one, {key.predecessor}, still works: revoke it first, or wait for its end.",
            code="rotation_open",
        )
