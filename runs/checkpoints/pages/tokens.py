"""Checkpoints as the queue's forms name them: ``acme:0193b4e2-…``, and ``…:7`` where the version counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

_MOST_VERSIONS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Token:
    """The slug of a tenant, the id of a checkpoint of it, and which version of it somebody saw (0: none)."""

    slug: str
    checkpoint_id: UUID
    version: int = 0

    def __str__(self) -> str:
        return ":".join([self.slug, str(self.checkpoint_id), *([str(self.version)] if self.version else [])])


def read_token(text: str) -> Token | None:
    """Return what ``text`` names; None for what is no token."""
    slug, _, rest = text.partition(":")
    name, _, number = rest.partition(":")
    if number and not (number.isascii() and number.isdecimal() and len(number) < 11):
        return None
    version = int(number or 0)
    try:
        return Token(slug, UUID(name), version) if slug and version <= _MOST_VERSIONS else None
    except ValueError:
        return None


def read_tokens(texts: Iterable[str]) -> list[Token]:
    """Return what the texts name, each checkpoint once, in their order."""
    found = [token for text in texts if (token := read_token(text))]
    return list({(token.slug, token.checkpoint_id): token for token in found}.values())
