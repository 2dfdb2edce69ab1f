"""How fast anybody may guess. Every try is counted before it is looked at, so many at once are no way round.

Three counts, in PostgreSQL so that all web processes share them: a name from one address (strict), an address
whatever the names (looser), and a name whatever the addresses (looser still, and its wait stays short). An
address from which the name has succeeded before is not held up by the last one: strangers who guess a name
never lock its owner out of a place that the owner uses.
"""

from __future__ import annotations

import math
import secrets
import unicodedata
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from django.db import connection, transaction
from django.utils.crypto import salted_hmac

from .errors import TooManyTries
from .models import Throttle

KEPT_FAILURES = timedelta(days=1)
KEPT_SUCCESSES = timedelta(days=90)
MAX_ROWS = 100_000
_SWEEP_ONE_IN = 50
_SWEPT_AT_ONCE = 1_000
_HIGHEST = 10_000.0  # what the table's constraint admits; the wait has long been the longest


@dataclass(frozen=True, slots=True)
class Limit:
    """``free`` tries at once, then waits from ``first``, doubling, to ``longest``; ``leak`` forgets one."""

    free: int
    leak: timedelta
    first: timedelta
    longest: timedelta

    def wait(self, level: float) -> timedelta:
        """Return how long after the try that made it ``level`` the next one may come."""
        over = math.ceil(level) - self.free
        return min(self.first * 2 ** min(over, 20), self.longest) if over >= 0 else timedelta(0)

    def leaked(self, level: float, since: timedelta) -> float:
        return max(0.0, level - max(since, timedelta(0)) / self.leak)


class Limits(NamedTuple):
    pair: Limit
    address: Limit
    name: Limit


class Guess(Enum):
    """What is tried, with its limits."""

    PASSWORD = Limits(
        pair=Limit(5, timedelta(minutes=10), timedelta(seconds=30), timedelta(minutes=15)),
        address=Limit(40, timedelta(seconds=20), timedelta(seconds=5), timedelta(minutes=5)),
        name=Limit(20, timedelta(minutes=1), timedelta(seconds=5), timedelta(minutes=1)),
    )
    JOIN = Limits(
        pair=Limit(10, timedelta(minutes=5), timedelta(seconds=30), timedelta(minutes=15)),
        address=Limit(40, timedelta(seconds=20), timedelta(seconds=5), timedelta(minutes=5)),
        name=Limit(20, timedelta(minutes=5), timedelta(seconds=30), timedelta(minutes=15)),
    )
    RESET = Limits(
        pair=Limit(3, timedelta(minutes=20), timedelta(minutes=1), timedelta(minutes=30)),
        address=Limit(20, timedelta(minutes=1), timedelta(seconds=10), timedelta(minutes=5)),
        name=Limit(5, timedelta(minutes=10), timedelta(minutes=1), timedelta(minutes=15)),
    )


class _Row(NamedTuple):
    level: float
    tried_at: datetime
    open_at: datetime
    succeeded_at: datetime | None


@dataclass(frozen=True, slots=True)
class Try:
    """A try that was let through and counted."""

    guess: Guess
    pair: bytes
    others: dict[bytes, Limit]

    def succeeded(self, now: datetime) -> None:
        """Take the try back, and know the address as one that the name uses."""
        with transaction.atomic():
            rows = _locked([self.pair, *self.others], now)
            Throttle.objects.filter(digest=self.pair).update(
                level=0, open_at=now, succeeded_at=now, kept_until=now + KEPT_SUCCESSES
            )
            for digest, limit in self.others.items():
                level = max(0.0, rows[digest].level - 1)
                open_at = rows[digest].tried_at + limit.wait(level)
                Throttle.objects.filter(digest=digest).update(level=level, open_at=open_at)


def take_try(guess: Guess, *, name: str, address: str, now: datetime) -> Try:
    """Count a try by ``name`` from ``address``; raises TooManyTries, uncounted, where it comes too early.

    It is committed at once, so call it outside any transaction.
    """
    pair = _pair(guess, name, address)
    by_address, by_name = _digest(guess, "address", address), _digest(guess, "name", _folded(name))
    limits = {pair: guess.value.pair, by_address: guess.value.address, by_name: guess.value.name}
    with transaction.atomic():
        rows = _locked(list(limits), now)
        if rows[pair].succeeded_at is not None:
            del limits[by_name]
        until = max(rows[digest].open_at for digest in limits)
        if until > now:
            raise TooManyTries(until)
        for digest, limit in limits.items():
            row = rows[digest]
            level = min(limit.leaked(row.level, now - row.tried_at) + 1, _HIGHEST)
            Throttle.objects.filter(digest=digest).update(
                level=level, tried_at=now, open_at=now + limit.wait(level)
            )
    if secrets.randbelow(_SWEEP_ONE_IN) == 0:
        sweep(now)
    return Try(guess, pair, {digest: limit for digest, limit in limits.items() if digest != pair})


def know(guess: Guess, *, name: str, address: str, now: datetime) -> None:
    """Forget the tries by ``name`` from ``address``, whose owner has been proved in another way."""
    Try(guess, _pair(guess, name, address), {}).succeeded(now)


def sweep(now: datetime, *, max_rows: int = MAX_ROWS) -> int:
    """Delete rows that need not be kept any longer, and the oldest beyond ``max_rows``; return how many."""
    oldest = Throttle.objects.order_by("-kept_until").values_list("kept_until", flat=True)
    beyond = oldest[max_rows : max_rows + 1]
    due = Throttle.objects.filter(kept_until__lte=max([now, *beyond]))
    with transaction.atomic():
        # Not waited for: a row that somebody holds is in use.
        locked = due.order_by("kept_until").select_for_update(skip_locked=True)
        digests = list(locked.values_list("digest", flat=True)[:_SWEPT_AT_ONCE])
        return Throttle.objects.filter(digest__in=digests).delete()[0]


def _locked(digests: list[bytes], now: datetime) -> dict[bytes, _Row]:
    """Return the rows of ``digests``, made where there are none; locked in order, so nobody deadlocks."""
    until = now + KEPT_FAILURES
    values = [value for digest in sorted(digests) for value in (digest, now, now, until)]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tenants_throttle AS t (digest, level, tried_at, open_at, kept_until) VALUES "
            + ", ".join(["(%s, 0, %s, %s, %s)"] * len(digests))
            + " ON CONFLICT (digest) DO UPDATE SET kept_until = greatest(t.kept_until, excluded.kept_until)"
            " RETURNING digest, level, tried_at, open_at, succeeded_at",
            values,
        )
        return {bytes(digest): _Row(*rest) for digest, *rest in cursor.fetchall()}


def _folded(name: str) -> str:
    # Sign-in takes a wide letter for the plain one, and the look-up of an address compares capitals, in which
    # an i without its dot is one with it: no such spelling gets tries of its own.
    return unicodedata.normalize("NFKC", name).strip().upper().casefold()


def _pair(guess: Guess, name: str, address: str) -> bytes:
    return _digest(guess, "pair", _folded(name), address)


def _digest(guess: Guess, *what: str) -> bytes:
    # A null character or half a surrogate pair is somebody's try as well: ascii writes both in ASCII.
    return salted_hmac(f"guardops.throttle.{guess.name}", ascii(what), algorithm="sha256").digest()
