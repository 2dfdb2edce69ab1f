"""How domains look to people. Names are kept as A-labels; what they stand for may be made to deceive."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import idna

# What people write together, by Unicode's own advice on identifiers (UTS 39, highly restrictive).
_TOGETHER = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)
# Letters of other scripts that are drawn like Latin ones: a word of nothing else reads as a Latin word.
_LIKE_LATIN = frozenset("асԁеһіјӏорԛѕԝхуѵ" + "ανορυικ")


@dataclass(frozen=True, slots=True)
class Look:
    """``readable`` is what a browser shows of the name, empty where that is no different."""

    readable: str = ""
    warning: str = ""
    """Why it may deceive a reader, in two words; empty where it does not."""


@lru_cache(maxsize=4_096)
def look_of(name: str) -> Look:
    """Return how a domain, given as A-labels, looks; names of tools and anything else look as they are."""
    if "xn--" not in name:
        return Look()
    labels = list(_labels(name))
    return Look(".".join(labels), next(filter(None, map(_warning, labels)), ""))


def _labels(name: str) -> Iterator[str]:
    for label in name.split("."):
        try:
            yield idna.decode(label)
        except (idna.IDNAError, UnicodeError):
            yield label


def _warning(label: str) -> str:
    letters = [char for char in label if char.isalpha()]
    scripts = {unicodedata.name(char, "unnamed").split()[0] for char in letters}
    if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
        return "Mixed script"
    foreign = scripts and "LATIN" not in scripts
    return "Looks Latin" if foreign and _LIKE_LATIN.issuperset(letters) else ""
