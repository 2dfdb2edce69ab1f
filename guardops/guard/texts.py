"""Texts that come from outside: a tool's name as the model wrote it, a code as a service answered it."""

from __future__ import annotations


def encodable(text: str) -> str:
    """Return ``text`` with a question mark for what UTF-8 can't hold (half of a surrogate pair)."""
    return text if text.isascii() else text.encode(errors="replace").decode()
