"""What counts as a secret in a text, and how it is hidden.

A secret is known by its own shape (keys of known makers, signed tokens, private keys, the user part of a URL,
long random runs) or by the name beside it (``password=``, an ``Authorization`` header, an ``apiKey`` field).
Hiding twice changes nothing. Most texts hold none: :func:`may_hold_secret` says so at little cost, and only
the others are looked at closely.
"""

from __future__ import annotations

import base64
import re
from typing import Any

import msgspec

from .hints import is_random, may_have_shape, may_hold_secret, may_name_secret

HIDDEN = "***"
MAX_ARGS = 300
_MAX_VALUE = 60
_MAX_NESTING = 4

_STEMS = (
    r"passw(?:or)?d|passphrase|passcode|pwd|secret(?!ar)|token(?!i[sz])|credential|authorization|cookie"
    r"|signature|bearer|session[-_ ]?id"
    r"|(?:access|account|api|auth|client|encryption|master|private|service|shared|signing)[-_ ]?key"
)
_SECRET_NAME = re.compile(_STEMS, re.I)
_SECRET_WORDS = frozenset({"auth", "cvv", "jwt", "otp", "pass", "pin", "pw", "sid", "sig"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_COUNTED = re.compile(r"token", re.I)
"""A number under such a name is a count (``max_tokens``), not a secret."""

_QUOTED = r"(?P<q>\\*[\"'])(?:(?!(?P=q))(?:\\.|[^\\]))*"
_VALUE = rf"(?P<value>{_QUOTED}|[^\s\"'&,;)}}\]\\]+)"
_WORD_ALONE = r"(?<![A-Za-z0-9])(?:auth|jwt|pass|pw|sig)(?![A-Za-z0-9])|[?&]key(?==)"
_NAME = rf"(?P<name>(?:{_STEMS})[\w.-]{{0,40}}|{_WORD_ALONE})"
_NAMED = re.compile(rf"(?P<kept>{_NAME}\\*[\"']?\]?\s*(?:=>|%3[dD]|:=?|==?)\s*){_VALUE}", re.I | re.S)
_PAIRED = re.compile(
    r"(?P<kept>(?:\[\s*|\b(?:header|key|name)\\*[\"']\s*:\s*)\\*[\"']"
    rf"(?P<name>[\w-]{{0,40}}?(?:{_STEMS}|auth)[\w-]{{0,40}})\\*[\"']\s*,\s*(?:\\*[\"']value\\*[\"']\s*:\s*)?)"
    rf"(?P<value>{_QUOTED})",
    re.I | re.S,
)
_HEADER = re.compile(
    r"(?P<kept>\b(?P<name>(?:proxy-)?authorization|(?:set-)?cookie)\s*[:=]\s*)(?P<value>[^\"'\r\n\\]+)", re.I
)
_OPTION = re.compile(
    rf"(?P<kept>--(?P<name>[\w-]{{0,40}}?(?:{_STEMS})[\w-]{{0,40}})\s+(?!-)){_VALUE}", re.I | re.S
)
_BY_NAME = (_HEADER, _PAIRED, _OPTION, _NAMED)

_BASIC = re.compile(r"(?P<kept>\bbasic\s+)(?P<value>[A-Za-z0-9+/_-]{6,}={0,2})", re.I)
_BEARER = re.compile(r"\bbearer\s+[\w.~+/=-]{6,}", re.I)
_USER_OPTION = re.compile(r"(?P<kept>(?<!\S)(?:-u|--user)[ =]\s*)[^\s:\"'\\]+:[^\s\"'\\]+")
_USER_IN_URL = re.compile(r"(?P<kept>[a-z][a-z0-9+.-]{0,30}://)[^\s/?#\"'\\]*@", re.I)
_KNOWN_SHAPE = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----[^\"-]*(?:-----END [A-Z0-9 ]*-----)?"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{12,}"
    r"|\bsk-[A-Za-z0-9][\w-]{11,}|\b[rs]k_(?:live|test)_\w{8,}"
    r"|\bgo_[0-9a-f]{6,}_\w{8,}"
    r"|\bgh[opsur]_\w{12,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{12,}"
    r"|\bxox[a-z]-[\w-]{8,}|\bxapp-[\w-]{12,}|\bhooks\.slack\.com/services/[\w/]+"
    r"|\bAIza[\w-]{30,}|\bya29\.[\w-]{12,}|\bhf_\w{16,}|\bnpm_\w{16,}|\bSG\.[\w-]{12,}\.[\w-]{12,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?",
)
_LONG_RUN = re.compile(r"[A-Za-z0-9+_=-]{32,}|(?<![\w/.:+-])[A-Za-z0-9+/]{36,}={0,2}(?![\w/.])")
_OPENING = ("{", "[")
_encode = msgspec.json.Encoder().encode
_SAYS_NOTHING = frozenset({"", HIDDEN, "true", "false", "null", "none"})


def hide(text: str) -> str:
    """Return ``text`` with three stars for every secret in it; one that is JSON is read as such."""
    if not text or not may_hold_secret(text):
        return text
    if text[:1] in _OPENING:
        try:
            value = msgspec.json.decode(text)
            hidden = hide_in(value)
            return text if hidden == value else _encode(hidden).decode()
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            pass  # JSON that was cut, or none
    text = hide_shapes(text)
    if may_name_secret(text):
        for pattern in _BY_NAME:
            text = pattern.sub(_without_value, text)
    return _LONG_RUN.sub(_without_random, text)


def hide_shapes(text: str) -> str:
    """Return ``text`` with three stars for what is a secret by its own shape.

    For names and ids, where a long random run is nothing to hide.
    """
    if not may_have_shape(text):
        return text
    text = _KNOWN_SHAPE.sub(HIDDEN, text)
    text = _USER_IN_URL.sub(rf"\g<kept>{HIDDEN}@", text)
    text = _BEARER.sub(HIDDEN, text)
    text = _BASIC.sub(_without_credentials, text)
    return _USER_OPTION.sub(rf"\g<kept>{HIDDEN}", text)


def hide_in(value: Any, *, longest: int | None = None, deepest: int | None = None, depth: int = 0) -> Any:
    """Return a copy of decoded JSON without what is secret by name or look.

    Texts are cut to ``longest`` characters, and what lies deeper than ``deepest`` is left out.
    """
    if isinstance(value, str):
        return _cut(hide(value), longest)
    if not isinstance(value, dict | list | tuple):
        return value
    if deepest is not None and depth > deepest:
        return "…"
    if isinstance(value, dict):
        pair = _name_of_pair(value)
        return {
            _cut(hide(str(name)), longest): _hidden(item)
            if is_secret_name(str(name), item) or (pair and name == "value" and is_secret_name(pair, item))
            else hide_in(item, longest=longest, deepest=deepest, depth=depth + 1)
            for name, item in value.items()
        }
    if len(value) == 2 and isinstance(value[0], str) and is_secret_name(value[0], value[1]):
        return [value[0], _hidden(value[1])]
    return [hide_in(item, longest=longest, deepest=deepest, depth=depth + 1) for item in value]


def is_secret_name(name: str, value: object = "") -> bool:
    """Say whether a field of this name holds a secret, given what it holds."""
    if value is None or isinstance(value, bool):
        return False
    if _SECRET_NAME.search(name):
        return not (isinstance(value, int | float) and _COUNTED.search(name))
    return not _SECRET_WORDS.isdisjoint(word.lower() for word in _WORD.findall(name))


def hidden_args(canonical: bytes) -> str:
    """Return canonical arguments without what is secret by name or look, cut to 300 characters."""
    if not canonical:
        return ""
    value = hide_in(msgspec.json.decode(canonical), longest=_MAX_VALUE, deepest=_MAX_NESTING)
    return _cut(msgspec.json.encode(value).decode(), MAX_ARGS)


def _hidden(value: object) -> object:
    return value if value == "" else HIDDEN


def _cut(text: str, longest: int | None) -> str:
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def _name_of_pair(value: dict[str, Any]) -> str:
    """Return the name in ``{"name": …, "value": …}``, empty where a mapping is none such."""
    if "value" in value:
        for key in ("name", "key", "header"):
            if isinstance(name := value.get(key), str):
                return name
    return ""


def _without_value(match: re.Match[str]) -> str:
    value, quote = match["value"], match.groupdict().get("q") or ""
    plain = value[len(quote) :]
    if plain.lower() in _SAYS_NOTHING or (not quote and _is_count(match["name"], plain)):
        return match[0]
    return f"{match['kept']}{quote}{HIDDEN}"


def _is_count(name: str, value: str) -> bool:
    return value.isdecimal() and _COUNTED.search(name) is not None


def _without_credentials(match: re.Match[str]) -> str:
    """Hide what follows ``Basic`` where it is a user and a password, and not the next word of a sentence."""
    value = match["value"].rstrip("=")
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_" if "_" in value else None)
    except ValueError:  # a letter beyond ASCII is one of those that count where case does not
        return match[0]
    return f"{match['kept']}{HIDDEN}" if b":" in decoded else match[0]


def _without_random(match: re.Match[str]) -> str:
    return HIDDEN if is_random(match[0]) else match[0]
