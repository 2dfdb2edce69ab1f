"""Addresses with their tokens, as they lie in the database: encrypted with a key made from Django's own.

A dump, a backup or a look into the table shows none of them. Whoever changes ``GUARDOPS_SECRET_KEY`` has to
enter them again.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from guardops.tenants.errors import GuardOpsError


class Unreadable(GuardOpsError):
    """It was written with another secret key."""

    default_code = "unreadable_secret"


def encrypt(plain: bytes) -> bytes:
    return _cipher(settings.SECRET_KEY).encrypt(plain)


def decrypt(secret: bytes) -> bytes:
    """Return what was encrypted; raises Unreadable where the key is another one or the bytes are not ours."""
    try:
        return _cipher(settings.SECRET_KEY).decrypt(secret)
    except InvalidToken:
        raise Unreadable(
            "The address can't be read, since GUARDOPS_SECRET_KEY has changed. Enter it again."
        ) from None


@lru_cache(maxsize=4)
def _cipher(key: str) -> Fernet:
    # The key of sessions and forms is never used as it is: another purpose, another key.
    derived = HKDF(SHA256(), 32, salt=None, info=b"guardops channels").derive(key.encode())
    return Fernet(urlsafe_b64encode(derived))
