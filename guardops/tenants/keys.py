"""Keys of machines: made, checked and revoked here.

A key is ``go_<prefix>_<secret>``: 12 hexadecimal digits to find it by and 64 (256 random bits) that prove it.
Stored is the SHA-256 of the whole; the secret is too long to guess, so a slow hash would only cost the gate.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Q

from .actors import System, acting
from .cache import ShortCache
from .choices import Scope
from .errors import Forbidden, InvalidKey, Unauthenticated
from .models import ApiKey, ApiKeyTenant, Organisation, Tenant

if TYPE_CHECKING:
    from .models import User

MAX_AGE = timedelta(seconds=5)  # a revoked key is refused after this at the latest
REFUSAL_AGE = timedelta(seconds=2)
USE_EVERY = timedelta(minutes=1)

_TOKEN = re.compile(r"go_([0-9a-f]{12})_[0-9a-f]{64}", re.ASCII)
_NO_DIGEST = bytes(32)


@dataclass(frozen=True, slots=True)
class KeyHolder:
    """Who presented a key, and what it may do; ``tenants`` maps the slugs it covers to their ids."""

    key_id: int
    organisation_id: int
    tenants: Mapping[str, int]
    scopes: frozenset[str]
    expires_at: datetime | None = None

    def require(self, scope: str) -> None:
        """Raise Forbidden (``missing_scope``) unless the key has ``scope``."""
        if scope not in self.scopes:
            raise Forbidden(f"This key lacks the scope {scope}.", code="missing_scope")

    def tenant_id(self, slug: str | None) -> int:
        """Return the id of the tenant named, or of the only one where none is named.

        Raises Forbidden (``unknown_tenant``) for one that the key doesn't cover, whether it exists or not.
        """
        if slug is None and len(self.tenants) == 1:
            return next(iter(self.tenants.values()))
        if slug is None:
            raise Forbidden("This key covers several tenants, so name one.", code="unknown_tenant")
        try:
            return self.tenants[slug]
        except KeyError:
            raise Forbidden("This key doesn't cover that tenant.", code="unknown_tenant") from None


# Refusals have a memory of their own, so that guessing pushes out no good key.
_holders: ShortCache[KeyHolder] = ShortCache(size=4096, age=MAX_AGE)
_refusals: ShortCache[tuple[str, str]] = ShortCache(size=4096, age=REFUSAL_AGE)
_used: set[int] = set()
_used_lock = threading.Lock()


def create_key(
    *,
    organisation: Organisation,
    tenants: Collection[Tenant],
    name: str,
    scopes: Collection[str],
    actor: User | System,
    now: datetime,
    expires_at: datetime | None = None,
    predecessor: ApiKey | None = None,
) -> tuple[ApiKey, str]:
    """Make a key and return it with its plain text, which is kept nowhere and can't be shown again.

    Raises InvalidKey where it covers no tenant or one of another organisation, has no or an unknown scope, no
    name, or is over before it begins.
    """
    _check(organisation, tenants, name, scopes, now, expires_at)
    prefix = secrets.token_hex(6)
    plain = f"go_{prefix}_{secrets.token_hex(32)}"
    with acting(actor):
        key = ApiKey.objects.create(
            organisation=organisation,
            name=name.strip(),
            prefix=prefix,
            digest=_digest(plain),
            scopes=sorted(set(scopes)),
            created_by=None if isinstance(actor, System) else actor,
            created_at=now,
            expires_at=expires_at,
            predecessor=predecessor,
        )
        ApiKeyTenant.objects.bulk_create(
            ApiKeyTenant(api_key=key, tenant=tenant, organisation=organisation)
            for tenant in sorted(set(tenants), key=lambda tenant: tenant.pk)
        )
    return key, plain


def revoke_key(key: ApiKey, *, actor: User | System, now: datetime) -> None:
    """Revoke a key for good; every gate refuses it within five seconds.

    Raises InvalidKey (``already_revoked``) where somebody did so before.
    """
    with acting(actor):
        # Compare and set: of two people who revoke at once, one is told that it was done.
        if not ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=now):
            raise InvalidKey(f"The key {key.name} has been revoked already.", code="already_revoked")
    key.revoked_at = now


def authenticate(header: str | None, now: datetime) -> KeyHolder:
    """Return who sent an ``Authorization: Bearer`` header; answers are remembered for five seconds a process.

    Raises Unauthenticated: ``unauthenticated`` without a key or with an unknown one, ``key_revoked`` and
    ``key_expired`` only to who has the whole secret.
    """
    plain = _bearer(header)
    digest = _digest(plain)
    if refusal := _refusals.get(digest, now):
        raise Unauthenticated(refusal[0], code=refusal[1])
    holder = _holders.get(digest, now)
    if holder is None:
        try:
            holder = _look_up(plain, digest, now)
        except Unauthenticated as error:
            _refusals.put(digest, (error.message, error.code), now)
            raise
        _holders.put(digest, holder, now)
    if holder.expires_at is not None and holder.expires_at <= now:
        raise Unauthenticated("This key has expired.", code="key_expired")
    with _used_lock:
        _used.add(holder.key_id)
    return holder


def remembered(header: str | None, now: datetime) -> KeyHolder | None:
    """Return who sent the header where this process has just looked that up; None where it has to ask.

    Needs no database, so that it may be called on an event loop.
    """
    plain = (header or "").partition(" ")[2]
    holder = _holders.get(_digest(plain), now)
    if holder is None or (holder.expires_at is not None and holder.expires_at <= now):
        return None
    with _used_lock:
        _used.add(holder.key_id)
    return holder


def write_last_used(now: datetime) -> int:
    """Write down which keys this process has accepted since the last call, and return how many rows it took.

    Called now and then, outside the path of requests; a key's row changes at most once a minute.
    """
    with _used_lock:
        used = sorted(_used)
        _used.clear()
    due = ApiKey.objects.filter(Q(last_used_at=None) | Q(last_used_at__lte=now - USE_EVERY), pk__in=used)
    with transaction.atomic():
        # Locked in order, and not waited for: another gate that holds the row writes the same.
        ids = list(due.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True))
        return ApiKey.objects.filter(pk__in=ids).update(last_used_at=now)


def forget() -> None:
    """Empty this process's memory of keys."""
    _holders.clear()
    _refusals.clear()
    with _used_lock:
        _used.clear()


def _look_up(plain: str, digest: bytes, now: datetime) -> KeyHolder:
    match = _TOKEN.fullmatch(plain)
    assert match is not None
    rows = list(
        ApiKey.objects.filter(prefix=match[1])
        .order_by("tenants__slug")
        .values_list(
            "digest", "pk", "organisation", "scopes", "expires_at", "revoked_at", "tenants__slug", "tenants"
        )
    )
    stored = bytes(rows[0][0]) if rows else _NO_DIGEST
    if not hmac.compare_digest(stored, digest):
        raise Unauthenticated("This key is unknown.")
    _, key_id, organisation_id, scopes, expires_at, revoked_at, *_ = rows[0]
    if revoked_at is not None:
        raise Unauthenticated("This key has been revoked.", code="key_revoked")
    if expires_at is not None and expires_at <= now:
        raise Unauthenticated("This key has expired.", code="key_expired")
    return KeyHolder(
        key_id=key_id,
        organisation_id=organisation_id,
        tenants={slug: tenant_id for *_, slug, tenant_id in rows if slug is not None},
        scopes=frozenset(scopes),
        expires_at=expires_at,
    )


def _bearer(header: str | None) -> str:
    scheme, _, plain = (header or "").partition(" ")
    plain = plain.strip()
    if scheme.lower() != "bearer" or not _TOKEN.fullmatch(plain):
        raise Unauthenticated("Send a key as Authorization: Bearer go_<prefix>_<secret>.")
    return plain


def _digest(plain: str) -> bytes:
    return hashlib.sha256(plain.encode()).digest()


def _check(
    organisation: Organisation,
    tenants: Collection[Tenant],
    name: str,
    scopes: Collection[str],
    now: datetime,
    expires_at: datetime | None,
) -> None:
    if not name.strip():
        raise InvalidKey("A key needs a name.")
    if not tenants:
        raise InvalidKey("A key covers at least one tenant.")
    if any(tenant.organisation_id != organisation.pk for tenant in tenants):
        raise InvalidKey("A key covers tenants of one organisation only.")
    if not scopes:
        raise InvalidKey("A key needs at least one scope.")
    if unknown := set(scopes) - set(Scope.values):
        raise InvalidKey(f"There is no scope {', '.join(sorted(unknown))}.")
    if expires_at is not None and expires_at <= now:
        raise InvalidKey("A key expires after it is made.")
