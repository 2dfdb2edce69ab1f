"""Hiding what is secret in events: in the guard before anything is sent, and again at ingest.

What counts as a secret is told by :mod:`guardops.guard.hiding`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from .checkpoints import CheckpointOpened
from .events import LedgerRow, RunEnded, RunHeartbeat, RunStarted, Step, WorkRefused
from .hiding import hide, hide_in, hide_shapes, is_secret_name
from .hints import find_suspects, is_uuid, may_have_shape, may_hold_secret
from .wire import Event

_encode = msgspec.json.Encoder().encode

_IDS = ("external_id", "root_task_id")
_NAMES = ("agent", "first_reason", "halt_reason", "job_type", "prompt_version", "reason", "release")
_ARGS, _TOOL, _NAME_OF_SOURCE = attrgetter("args"), attrgetter("tool"), attrgetter("name")
_FIRST_ERROR, _LAST_ERROR, _ERROR_CODE = map(attrgetter, ("first_error", "last_error", "error_code"))
_NAMES_OF_RUN = attrgetter(*(name for name in _NAMES if name != "reason"))
_NAME_OF_ID = re.compile(
    r"(?:(?<![a-z])|_)(?:id|uuid|hash|digest|sha\d*|md5|commit|revision|checksum)$", re.I
)
_DIGEST = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}", re.I)
_VERSION = re.compile(rf"(?:(?:etag|md5|sha\d+)[:-])?(?:{_DIGEST.pattern})", re.I)
_MAX_KNOWN = 4_096
_MAX_NAME = 128
_MAX_CODE = 64
_MAX_ATTRIBUTE = 256
_MAX_TEXT = 4_096


def redact_event(event: Event) -> bool:
    """Hide every secret in an event's texts, in place, and say whether there was one.

    Arguments, codes of errors, attributes and details are looked at for all that is a secret; names and ids
    for known shapes alone. An envelope stays as it was signed.
    """
    if isinstance(event, CheckpointOpened):
        return _redact(event)
    suspect = may_hold_secret("\n".join(_free_texts(event))) or not _are_clean([event])
    return suspect and _redact(event)


def redact_events(events: Sequence[Event]) -> list[bool]:
    """Do as :func:`redact_event` with each of several events, for less than as many times its cost."""
    suspects = find_suspects(["\n".join(_free_texts(event)) for event in events])
    common = [(place, event) for place, event in enumerate(events) if not isinstance(event, CheckpointOpened)]
    if len(common) < len(events):  # checkpoints are rare and full of text: each is looked at closely
        suspects.update({*range(len(events))} - {place for place, _ in common})
    if not _are_clean([event for _, event in common]):
        suspects.update(place for place, event in common if not _are_clean([event]))
    return [place in suspects and _redact(event) for place, event in enumerate(events)]


def _redact(event: Event) -> bool:
    before = _encode(event)
    _hide_names(event)
    if isinstance(event, RunEnded):
        _hide_texts(event)
    elif isinstance(event, RunStarted):
        event.limits = hide_in(event.limits)
    elif isinstance(event, CheckpointOpened):
        _hide_handed_over(event)
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


def _names_of(event: RunStarted | RunHeartbeat | WorkRefused | CheckpointOpened) -> set[str | None]:
    if isinstance(event, RunHeartbeat):
        return {*event.pressure, *map(_NAME_OF_SOURCE, event.sources)}
    return {getattr(event, name, None) for name in _NAMES}


def _text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _hide_names(event: Event) -> None:
    for name in (*_IDS, *_NAMES):
        if text := getattr(event, name, None):
            setattr(event, name, _shown_name(text))
    if isinstance(event, RunEnded | RunHeartbeat | CheckpointOpened):
        for source in event.sources:
            source.name = _shown_name(source.name)
    if isinstance(event, RunHeartbeat):
        event.pressure = {_shown_name(name)[:_MAX_CODE]: share for name, share in event.pressure.items()}
    if isinstance(event, RunEnded | CheckpointOpened):
        for row in event.ledger:
            row.tool = _shown_name(row.tool)
        for step in event.last_steps:
            step.tool = _shown_name(step.tool)


def _shown_name(name: str) -> str:
    return name if _names.is_clean(name) else hide_shapes(name)[:_MAX_NAME]


def _shown_code(code: str) -> str:
    return code if _codes.is_clean(code) else hide(code)[:_MAX_CODE]


def _hide_texts(event: RunEnded) -> None:
    _hide_steps(event.last_steps, event.ledger)
    event.attributes = _hidden_attributes(event.attributes)
    event.limits = {name: hide_in(limit) for name, limit in event.limits.items()}
    if event.halt_detail:
        event.halt_detail = hide_in(event.halt_detail)


def _hide_steps(steps: Sequence[Step], ledger: Sequence[LedgerRow]) -> None:
    for step in steps:
        step.args, step.error_code = hide(step.args), _shown_code(step.error_code)
    for row in ledger:
        row.first_error, row.last_error = _shown_code(row.first_error), _shown_code(row.last_error)


def _hide_handed_over(event: CheckpointOpened) -> None:
    """Hide what is secret in a checkpoint's texts; digests and hashes stay: decisions are bound to them."""
    _hide_steps(event.last_steps, event.ledger)
    event.question = hide(event.question)[:_MAX_TEXT]
    event.unresolved = [hide(fact)[:_MAX_ATTRIBUTE] for fact in event.unresolved]
    event.limits = hide_in(event.limits)
    event.artifact.text = hide(event.artifact.text)
    event.artifact.source = hide(event.artifact.source)[:_MAX_ATTRIBUTE]
    for source in event.sources:
        source.evidence_version = _shown_version(source.evidence_version)
    for count in event.calls:
        count.tool = _shown_name(count.tool)
    for call in [*event.pending, *([event.refused] if event.refused else [])]:
        call.tool, call.args = _shown_name(call.tool), hide(call.args)


def _shown_version(text: str) -> str:
    """Return an evidence's version, which may well be a digest."""
    return text if _VERSION.fullmatch(text) else hide(text)[:_MAX_ATTRIBUTE]


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
