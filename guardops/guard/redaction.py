"""What counts as a secret, and how it is hidden: in the guard before anything is sent, and again at ingest.

A secret is known by its own shape (keys of known makers, signed tokens, private keys, the user part of a URL,
long random runs) or by the name beside it (``password=``, an ``Authorization`` header, an ``apiKey`` field).
Hiding twice changes nothing. Most texts hold none: :func:`may_hold_secret` says so at little cost, and only
the others are looked at closely.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from .events import RunEnded, RunHeartbeat, RunStarted, WorkRefused
from .hints import find_suspects, is_random, is_uuid, may_have_shape, may_hold_secret, may_name_secret
from .wire import Event

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

_IDS = ("external_id", "root_task_id")
_NAMES = ("agent", "first_reason", "halt_reason", "job_type", "prompt_version", "reason", "release")
_ARGS, _TOOL, _NAME_OF_SOURCE = attrgetter("args"), attrgetter("tool"), attrgetter("name")
_FIRST_ERROR, _LAST_ERROR, _ERROR_CODE = map(attrgetter, ("first_error", "last_error", "error_code"))
_NAMES_OF_RUN = attrgetter(*(name for name in _NAMES if name != "reason"))
_NAME_OF_ID = re.compile(
    r"(?:(?<![a-z])|_)(?:id|uuid|hash|digest|sha\d*|md5|commit|revision|checksum)$", re.I
)
_DIGEST = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}", re.I)
_MAX_KNOWN = 4_096
_MAX_NAME = 128
_MAX_CODE = 64
_MAX_ATTRIBUTE = 256


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


def redact_event(event: Event) -> bool:
    """Hide every secret in an event's texts, in place, and say whether there was one.

    Arguments, codes of errors, attributes and details are looked at for all that is a secret; names and ids
    for known shapes alone. An envelope stays as it was signed.
    """
    suspect = may_hold_secret("\n".join(_free_texts(event))) or not _are_clean([event])
    return suspect and _redact(event)


def redact_events(events: Sequence[Event]) -> list[bool]:
    """Do as :func:`redact_event` with each of several events, for less than as many times its cost."""
    suspects = find_suspects(["\n".join(_free_texts(event)) for event in events])
    if not _are_clean(events):
        suspects.update(place for place, event in enumerate(events) if not _are_clean([event]))
    return [place in suspects and _redact(event) for place, event in enumerate(events)]


def _redact(event: Event) -> bool:
    before = _encode(event)
    _hide_names(event)
    if isinstance(event, RunEnded):
        _hide_texts(event)
    elif isinstance(event, RunStarted):
        event.limits = hide_in(event.limits)
    elif isinstance(event, WorkRefused) and event.detail:
        event.detail = hide_in(event.detail)
    return _encode(event) != before


def _free_texts(event: Event) -> list[str]:
    """Return the texts that differ from event to event."""
    if isinstance(event, RunEnded):
        return [*map(_ARGS, event.last_steps), *event.attributes.values(), *_texts_of(event.limits)]
    return _texts_of(event.limits) if isinstance(event, RunStarted) else []


def _are_clean(events: Sequence[Event]) -> bool:
    """Say whether what is in the events beside their free texts is certain to hold no secret."""
    names: set[str | None] = set()
    codes: set[str | None] = set()
    for event in events:
        if isinstance(event, RunEnded):
            _collect(event, names, codes)
            detail = event.halt_detail
        else:
            names.update(_names_of(event))
            detail = event.detail if isinstance(event, WorkRefused) else None
        if detail is not None or any(map(may_have_shape, _ids(event))):
            return False
        if isinstance(event, RunStarted) and not _are_named_plainly(event.limits):
            return False
    return _names.are_clean(names) and _codes.are_clean(codes)


class _Known:
    """Texts that come in every event, and are judged once."""

    def __init__(self, judge: Callable[[str], bool]) -> None:
        self._judge = judge
        self._clean: set[str | None] = set()

    def are_clean(self, texts: set[str | None]) -> bool:
        return all(map(self.is_clean, texts - self._clean))

    def is_clean(self, text: str | None) -> bool:
        """Say whether the judge sees no need of a close look at a text."""
        if text in self._clean:
            return True
        if text and self._judge(text):
            return False
        if len(self._clean) >= _MAX_KNOWN:
            self._clean.clear()
        self._clean.add(text)
        return True


def _is_telling(code: str) -> bool:
    return may_hold_secret(code) or is_secret_name(code)


def _is_telling_limit(name: str) -> bool:
    return is_secret_name(name, 0) or hide(name) != name


_names = _Known(may_have_shape)
_codes = _Known(_is_telling)
_limits = _Known(_is_telling_limit)


def _are_named_plainly(limits: dict[str, Any]) -> bool:
    """Say whether no limit is secret by its name; a number of tokens is none."""
    return _limits.are_clean({*limits}) and not any(
        is_secret_name(name, limit) for name, limit in limits.items() if not isinstance(limit, int | float)
    )


def _collect(event: RunEnded, names: set[str | None], codes: set[str | None]) -> None:
    """Add a run's names, and its codes of errors and names of attributes."""
    ledger, steps = event.ledger, event.last_steps
    names.update(
        _NAMES_OF_RUN(event), map(_TOOL, ledger), map(_TOOL, steps), map(_NAME_OF_SOURCE, event.sources)
    )
    codes.update(
        map(_FIRST_ERROR, ledger), map(_LAST_ERROR, ledger), map(_ERROR_CODE, steps), event.attributes
    )


def _texts_of(limits: dict[str, Any]) -> list[str]:
    return [_text(limit) for limit in limits.values() if type(limit) is not int and type(limit) is not float]


def _ids(event: Event) -> list[str]:
    if isinstance(event, WorkRefused):
        return []
    ids = (event.external_id, None if isinstance(event, RunHeartbeat) else event.root_task_id)
    return [text for text in ids if text and not is_uuid(text)]


def _names_of(event: RunStarted | RunHeartbeat | WorkRefused) -> set[str | None]:
    if isinstance(event, RunHeartbeat):
        return {*event.pressure, *map(_NAME_OF_SOURCE, event.sources)}
    return {getattr(event, name, None) for name in _NAMES}


def _text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _hide_names(event: Event) -> None:
    for name in (*_IDS, *_NAMES):
        if text := getattr(event, name, None):
            setattr(event, name, _shown_name(text))
    if isinstance(event, RunEnded | RunHeartbeat):
        for source in event.sources:
            source.name = _shown_name(source.name)
    if isinstance(event, RunHeartbeat):
        event.pressure = {_shown_name(name)[:_MAX_CODE]: share for name, share in event.pressure.items()}
    if isinstance(event, RunEnded):
        for row in event.ledger:
            row.tool = _shown_name(row.tool)
        for step in event.last_steps:
            step.tool = _shown_name(step.tool)


def _shown_name(name: str) -> str:
    return name if _names.is_clean(name) else hide_shapes(name)[:_MAX_NAME]


def _shown_code(code: str) -> str:
    return code if _codes.is_clean(code) else hide(code)[:_MAX_CODE]


def _hide_texts(event: RunEnded) -> None:
    for step in event.last_steps:
        step.args, step.error_code = hide(step.args), _shown_code(step.error_code)
    for row in event.ledger:
        row.first_error, row.last_error = _shown_code(row.first_error), _shown_code(row.last_error)
    event.attributes = _hidden_attributes(event.attributes)
    event.limits = {name: hide_in(limit) for name, limit in event.limits.items()}
    if event.halt_detail:
        event.halt_detail = hide_in(event.halt_detail)


def _hidden_attributes(attributes: dict[str, str]) -> dict[str, str]:
    hidden = hide_in(attributes)
    for name, text in attributes.items():
        if name in hidden and _is_identifier(name, text):
            hidden[name] = text
    return {name[:_MAX_CODE]: text[:_MAX_ATTRIBUTE] for name, text in hidden.items()}


def _is_identifier(name: str, text: str) -> bool:
    """Say whether an attribute is called an id or a digest, and is one, be it behind a path."""
    head, _, tail = text.rpartition("/")
    return (
        _NAME_OF_ID.search(name) is not None
        and not is_secret_name(name)
        and _DIGEST.fullmatch(tail) is not None
        and not may_hold_secret(head)
    )
