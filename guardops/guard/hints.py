"""The cheap look for secrets: whether a text is worth a close one. False is certain, True is not. Pure.

Nearly every text that a guard sends holds no secret, so this is what their search costs. It looks, in lower
case, for the words that stand beside secrets and the beginnings of known shapes, and for runs that are long
enough to be random, which the longer of the known shapes are as well. Many texts are looked at as one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

# What begins so, with what follows: one pattern a beginning is sought at the speed of a plain search, and
# stops seldom where the letter is a rare one of its word; what stands before it is looked behind at.
_NAMES = {
    "p": r"ass(?:w|phr|code|[^a-z]|\Z)|wd|w[^a-z]",
    "k": r"ey|(?<=tok)en|(?<=cook)ie",
    "h": r"(?<=auth)",
    "c": r"redential|(?<=sec)ret",
    "ssion": r"(?<=session)",
    "g": r"(?<=sig)(?:nature|[^a-z])",
    "bearer": r"",
}
_SHAPES = {
    "k": r"(?<=sk)-|_live|_test|(?<=hook)s\.slack|ia(?<=akia)[a-z0-9]{12}",
    "asia": r"[a-z0-9]{12}",
    "g": r"h[opsur]_|ithub_pat_|lpat-|o_[0-9a-f]{6}|(?<=sg)\.[\w-]{12}",
    "p": r"(?<=np)m_",
    "h": r"f_",
    "xox": r"",
    "xapp-": r"",
    "ya29": r"",
    "eyj": r"",
    "b": r"earer\s|asic\s|(?<=-----b)egin",
    "-u": r"ser|[\s=]",
}
# In JSON a letter or a slash may be written in another way, and only who decodes it sees the word.
_ESCAPES = {r"\\": r"/|u00[2-7]"}


def _by_letter(*hints: dict[str, str]) -> list[str]:
    """Return one pattern a beginning."""
    beginnings = dict.fromkeys(beginning for group in hints for beginning in group)
    return [
        f"{beginning}(?:{'|'.join(group[beginning] for group in hints if beginning in group)})"
        for beginning in beginnings
    ]


_HINTS = [re.compile(hint.encode()) for hint in _by_letter(_NAMES, _SHAPES, _ESCAPES)]
_HINT, _NAME_HINT, _SHAPE_HINT = (
    re.compile("|".join(_by_letter(*hints)).encode())  # faster for one text that is short
    for hints in ((_NAMES, _SHAPES, _ESCAPES), (_NAMES,), (_SHAPES,))
)
_USER_IN_URL = re.compile(rb"://[^\s/?#\"'\\]*@")
_ODD_LETTERS = (("\u212a", "k"), ("\u017f", "s"), ("\u0130", "i"), ("\u0131", "i"))
"""Letters beyond ASCII that a pattern takes for plain ones where case does not count."""

_KNOWN_BEGINNINGS = (b"AIza", b"hf_", b"npm_", b"eyJ", b"go_")
_RUN = b"a" * 32
_RUNS = bytes(97 if bytes([byte]).isalnum() or byte in b"_-+=" else 32 for byte in range(256))
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.I)
_LETTER_BESIDE_DIGIT = re.compile(r"(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_RANDOM = 3
"""As many borders between letters and digits has a random run of 32; words with numbers have fewer."""


def find_suspects(texts: Sequence[str]) -> set[int]:
    """Return the places of the texts that are worth a close look; costs less than to ask for each."""
    raws = [_plain(text) for text in texts]
    ends = list(accumulate(len(raw) + 1 for raw in raws))
    joined = b"\n".join(raws)
    lowered = joined.lower()
    hits = [match.start() for hint in _HINTS for match in hint.finditer(lowered)]
    return {bisect_right(ends, place) for place in hits + _tokens(joined)}


def may_hold_secret(text: str) -> bool:
    """Say whether a text is worth a close look."""
    return _may_hold(text, _HINT)


def may_have_shape(text: str) -> bool:
    """Say whether a text may hold what is a secret by its own shape, whatever stands beside it."""
    return _may_hold(text, _SHAPE_HINT)


def may_name_secret(text: str) -> bool:
    """Say whether a text holds a word that stands beside secrets."""
    return _NAME_HINT.search(_plain(text).lower()) is not None


def is_uuid(text: str) -> bool:
    return len(text) == 36 and _UUID.fullmatch(text) is not None


def is_random(run: str) -> bool:
    """Say whether letters and digits are too mixed for words with numbers; UUIDs in it don't count."""
    rest = _UUID.sub("", run)
    return len(rest) >= len(_RUN) and len(_LETTER_BESIDE_DIGIT.findall(rest)) >= _RANDOM


def _plain(text: str) -> bytes:
    if not text.isascii():
        for odd, plain in _ODD_LETTERS:
            if odd in text:
                text = text.replace(odd, plain)
    return text.encode(errors="replace")


def _may_hold(text: str, hint: re.Pattern[bytes]) -> bool:
    raw = _plain(text)
    return hint.search(raw.lower()) is not None or bool(_tokens(raw))


def _tokens(raw: bytes) -> list[int]:
    """Return the places of what may be random, and of what may be the user part of a URL."""
    found = [match.start() for match in _USER_IN_URL.finditer(raw)] if b"@" in raw else []
    if len(raw) < len(_RUN):
        return found
    runs = raw.translate(_RUNS)
    place = runs.find(_RUN)
    while place >= 0:
        start, end = runs.rfind(b" ", 0, place) + 1, runs.find(b" ", place)
        if _is_suspect(raw[start : end if end > 0 else None]):
            found.append(start)
        place = runs.find(_RUN, end) if end > 0 else -1
    return found


@lru_cache(maxsize=4096)  # names of models and tests, which come again
def _is_suspect(run: bytes) -> bool:
    return is_random(run.decode()) or any(beginning in run for beginning in _KNOWN_BEGINNINGS)
