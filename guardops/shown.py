"""How values are written for people: numbers, money, shares, times, and text that others wrote.

Everything here is pure; the template tags of ``shown`` are thin wrappers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

_GAP = "\u00a0"  # no-break space, between a number and its unit

# Letters of no width that Unicode counts as letters, marks or symbols and not as format characters.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_NAMED = re.compile("⟦U\\+([0-9A-F]{4,6})⟧")
_PLAIN = re.compile(r"[\t\n\x20-\x7e]*")


def is_unseen(char: str) -> bool:
    """Say whether a character shows as nothing or changes how others show: controls, bidi, fillers."""
    if char in "\n\t":
        return False
    return (
        unicodedata.category(char) in _UNSEEN_CATEGORIES
        or char in _BLANKS
        or "\ufe00" <= char <= "\ufe0f"
        or "\U000e0100" <= char <= "\U000e01ef"
    )


def named(char: str) -> str:
    """Write a character as its code point, ``⟦U+202E⟧``."""
    return f"⟦U+{ord(char):04X}⟧"


def runs_of_text(text: str) -> Iterator[tuple[bool, str]]:
    """Yield ``(unseen, part)``: the text in order, each unseen character as a named part of its own."""
    start = 0
    for at, char in enumerate(text):
        if is_unseen(char):
            if start < at:
                yield False, text[start:at]
            yield True, named(char)
            start = at + 1
    if start < len(text):
        yield False, text[start:]


def visible_text(value: object) -> str:
    """Return the text with every unseen character written out, for places that hold no markup."""
    text = str(value)
    if _PLAIN.fullmatch(text):
        return text
    return "".join(part for _, part in runs_of_text(text))


def from_visible(text: str) -> str:
    """Return what ``visible_text`` was given: a form sends back what it showed."""
    return _NAMED.sub(lambda found: _unnamed(int(found[1], 16)) or found[0], text)


def _unnamed(code_point: int) -> str:
    # What no text in the database can hold stays written out.
    if not 0 < code_point <= 0x10FFFF or 0xD800 <= code_point <= 0xDFFF:
        return ""
    return chr(code_point) if is_unseen(chr(code_point)) else ""


def count(value: int) -> str:
    return f"{value:,}"


def number(value: float, digits: int = 2) -> str:
    return f"{value:,.{digits}f}"


def money(value: Decimal) -> str:
    """USD with as many digits as matter: $0.412, $4.10, $746; less than a tenth of a cent is not hidden."""
    size = abs(value)
    if size >= 100:
        digits = 0
    elif size >= 1:
        digits = 2
    elif size >= Decimal("0.001") or not size:
        digits = 3 if size else 2
    else:
        digits = 6
    sign = "−" if value < 0 else ""
    return f"{sign}${size:,.{digits}f}"


def share(value: float) -> str:
    """A fraction as percent with one digit; what is not nothing, or not all, is not shown as such."""
    percent = value * 100
    if 0 < percent < 0.05:
        return f"<{_GAP}0.1{_GAP}%"
    if 99.95 <= percent < 100:
        return f">{_GAP}99.9{_GAP}%"
    return f"{percent:.0f}{_GAP}%" if percent in (0, 100) else f"{percent:.1f}{_GAP}%"


def points(difference: float) -> str:
    """The size of a difference between two shares, in percentage points."""
    return f"{abs(difference) * 100:.1f}{_GAP}pts"


def duration(span: timedelta) -> str:
    """The two largest units of a span: ``3 min 32 s``, ``2 d 4 h``."""
    seconds = max(0, int(span.total_seconds()))
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, unit in units:
        amount, seconds = divmod(seconds, size)
        if amount or parts:
            parts.append(f"{amount}{_GAP}{unit}" if amount else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part) or f"0{_GAP}s"


def ago(moment: datetime, now: datetime) -> str:
    """``8 min ago``, ``in 2 h``, ``just now``, by the largest unit."""
    seconds = (now - moment).total_seconds()
    size = abs(seconds)
    if size < 5:
        return "just now"
    for length, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if size >= length:
            amount = f"{int(size // length)}{_GAP}{unit}"
            break
    return f"{amount} ago" if seconds > 0 else f"in {amount}"
