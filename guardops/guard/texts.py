"""Texts that come from outside: a tool's name as the model wrote it, a code as a service answered it."""

from __future__ import annotations

from hashlib import sha256


def short_digest(text: str) -> str:
    """Return 16 hex digits that stand for ``text``."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def encodable(text: str) -> str:
    """Return ``text`` with a question mark for what UTF-8 can't hold (half of a surrogate pair)."""
    return text if text.isascii() else text.encode(errors="replace").decode()
