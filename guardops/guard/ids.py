"""UUIDv7 as RFC 9562 lays it out: 48 bits of Unix milliseconds, then version, variant and 74 random bits."""

from __future__ import annotations

import secrets
import time
from uuid import UUID

_VERSION_AND_VARIANT = 0x7000_8000_0000_0000_0000
_LOW_BITS = (1 << 62) - 1
MAX_MS = (1 << 48) - 1


def uuid7(ms: int, random: int) -> UUID:
    """Return the UUIDv7 of a Unix time in milliseconds (0 to 2**48 - 1) and 74 random bits."""
    if not 0 <= ms <= MAX_MS:
        raise ValueError(f"a UUIDv7 holds no time of {ms} ms")
    high, low = (random >> 62) & 0xFFF, random & _LOW_BITS
    return UUID(int=ms << 80 | high << 64 | low | _VERSION_AND_VARIANT)


def new_uuid7() -> UUID:
    """Return a fresh UUIDv7 of this machine's clock."""
    return uuid7(time.time_ns() // 1_000_000, secrets.randbits(74))


def lowest_id(ms: int) -> UUID:
    """Return the bound below every UUIDv7 of that millisecond and above every earlier one."""
    return UUID(int=ms << 80)


def uuid7_ms(value: UUID) -> int:
    """Return the Unix milliseconds that a UUIDv7 carries."""
    return value.int >> 80
