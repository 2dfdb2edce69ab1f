"""Policy documents field by field: what each field is called, how its value reads, and what differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardops.guard.bundle import OnStale, merge
from guardops.guard.events import Mode, OnTimeout
from guardops.guard.policy import SideEffect

from .compose import Above
from .effects import tightens
from .limits import BUILT_IN, LIMITS

Path = tuple[str, ...]
"""Where a value stands in a document: ``("limits", "max_steps")``, ``("tools", "fetch", "external")``."""

BUILT_IN_SOURCE = "the guard itself"
_BUILT_IN_DOCUMENT: Mapping[str, Any] = {
    "mode": Mode.ENFORCE.value,
    "limits": BUILT_IN,
    "allow_list": False,
    "partial_ok": True,
    "on_stale": OnStale.KEEP.value,
    "review": {"sla_s": 1_800, "on_timeout": OnTimeout.STOP.value},
}
MODES = {Mode.ENFORCE.value: "Enforce", Mode.SHADOW.value: "Shadow", Mode.OFF.value: "Off"}
ON_STALE = {
    OnStale.KEEP.value: "Keep the last policy",
    OnStale.BUILTIN.value: "The stricter of it and the built-in limits",
    OnStale.REFUSE.value: "Start no new run",
}
ON_TIMEOUT = {OnTimeout.STOP.value: "Stop", OnTimeout.FORCE_ANSWER.value: "Force an answer"}
SIDE_EFFECTS = {
    SideEffect.READ.value: "Reads",
    SideEffect.WRITE.value: "Writes",
    SideEffect.SIDE_EFFECT.value: "Acts on the world",
}
RUNG_WORDS = {
    "nudge": "Nudge",
    "force_answer": "Force an answer",
    "escalate": "Ask a person",
    "halt": "Halt",
}
TOOL_FIELDS = {
    "class": "what it does",
    "kind": "how it works",
    "key": "arguments that make a call",
    "fields": "arguments it takes",
    "volatile": "arguments that don’t count",
    "credentials": "credentials",
    "strip": "arguments to trim",
    "casefold": "arguments without case",
    "sets": "arguments that are sets",
    "null_is_omitted": "null means left out",
    "empty": "results that count as empty",
    "poll": "polling",
    "max_repeats": "same call, same result",
    "max_empty": "empty results of a call",
    "max_retries": "retries of a call",
    "approval": "needs approval",
    "forbidden": "forbidden",
    "idempotent": "may be repeated",
    "external": "novelty proves nothing",
    "errors": "error codes",
}
_FIELDS = {
    "mode": "Mode",
    "allow_list": "Only the tools named",
    "partial_ok": "A partial answer will do",
    "on_stale": "When the server can’t be asked",
    "sla_s": "Review within",
    "on_timeout": "When nobody decides in time",
    "resume_max": "Most a reviewer may add",
}
_WORDS: Mapping[str, Mapping[str, str]] = {
    "mode": MODES,
    "on_stale": ON_STALE,
    "on_timeout": ON_TIMEOUT,
    "class": SIDE_EFFECTS,
}


@dataclass(frozen=True, slots=True)
class Value:
    """A field's value in words. ``source`` says where it comes from, and is empty for the document's own."""

    text: str
    source: str = ""


NOT_SET = Value("not set", "nowhere")


@dataclass(frozen=True, slots=True)
class Difference:
    """A field in which two documents differ."""

    path: Path
    before: Value
    after: Value
    tightens: bool | None = None
    """Whether the change allows less; None where that can't be said."""

    @property
    def label(self) -> str:
        return label_of(self.path)

    @property
    def is_limit(self) -> bool:
        return self.path[0] == "limits"


def paths_of(document: Mapping[str, Any]) -> dict[Path, Any]:
    """Return the values of a document by their paths; a tool that is merely named has one too."""
    found: dict[Path, Any] = {}
    for key, value in document.items():
        if key == "tools":
            for tool, spec in value.items():
                found["tools", tool] = True
                found |= {("tools", tool, name): item for name, item in spec.items()}
        elif key in ("limits", "ladder", "review"):
            found |= {(key, name): item for name, item in value.items()}
        else:
            found[(key,)] = value
    return found


def label_of(path: Path) -> str:
    """Return what a field is called."""
    match path:
        case ("limits", name):
            return LIMITS[name].label if name in LIMITS else name
        case ("ladder", name):
            return f"First answer to {name}"
        case ("tools", tool):
            return f"Tool {tool}"
        case ("tools", tool, name):
            return f"Tool {tool}: {TOOL_FIELDS.get(name, name)}"
    return _FIELDS.get(path[-1], path[-1])


def said(path: Path, value: Any) -> str:
    """Return a field's value in words."""
    name = path[-1]
    if len(path) == 2 and path[0] == "tools":
        return "named"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if path[0] == "ladder":
        return RUNG_WORDS.get(value, str(value))
    if isinstance(value, str) and value in _WORDS.get(name, ()):
        return _WORDS[name][value]
    if name == "max_cost":
        return f"${value}"
    if name == "sla_s":
        return f"{value:,} s"
    if isinstance(value, int | float):
        return f"{int(value) if value == int(value) else value:,}"
    if name == "poll":
        return _said_poll(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items()) or "nothing"
    return _plain(value)


def _said_poll(poll: Mapping[str, Any]) -> str:
    said = [f"every {poll['interval']:g} s", f"at most {poll['max_attempts']:,} times"]
    if "max_seconds" in poll:
        said.append(f"for {poll['max_seconds']:,.0f} s")
    if terminal := poll.get("terminal"):
        said.append(f"until {' or '.join(terminal)}")
    return ", ".join(said)


def _plain(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_plain(item) for item in value) or "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class Inheritance:
    """What a document lies over: of each field the value that holds without it, and where that comes from."""

    def __init__(self, levels: Sequence[Above]) -> None:
        self._from: dict[Path, tuple[Any, str]] = {
            path: (value, BUILT_IN_SOURCE) for path, value in paths_of(_BUILT_IN_DOCUMENT).items()
        }
        self.document: dict[str, Any] = {}
        """All levels laid over each other, without what is built in."""
        for level in levels:
            self.document = merge(self.document, level.document)
            self._from |= {path: (value, level.source) for path, value in paths_of(level.document).items()}

    def raw(self, path: Path) -> Any:
        """Return the inherited value as documents have it; None where there is none."""
        if len(path) == 3 and path[:2] == ("review", "resume_max"):
            return self._from.get(path[:2], ({}, ""))[0].get(path[2])
        return self._from.get(path, (None, ""))[0]

    def value(self, path: Path) -> Value:
        """Return the inherited value in words, with its source."""
        if path not in self._from:
            return Value("as usual", BUILT_IN_SOURCE) if path[0] == "ladder" else NOT_SET
        value, source = self._from[path]
        return Value(said(path, value), source)

    def tools(self) -> dict[str, str]:
        """Return the tools that are specified above, by name, with what is said of each."""
        return {
            tool: "; ".join(
                f"{TOOL_FIELDS.get(name, name)}: {said(('tools', tool, name), value)}"
                for name, value in spec.items()
            )
            for tool, spec in self.document.get("tools", {}).items()
        }


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], inherited: Inheritance
) -> list[Difference]:
    """Return in which fields two documents of one place differ, in the order of the editor."""
    old, new = paths_of(before), paths_of(after)
    holding = [merge(inherited.document, document) for document in (before, after)]

    def value(paths: Mapping[Path, Any], path: Path) -> Value:
        return Value(said(path, paths[path])) if path in paths else inherited.value(path)

    return [
        Difference(path, value(old, path), value(new, path), tightens(path, *holding))
        for path in sorted({**old, **new}, key=_order)
        if _own(old, path) != _own(new, path)
    ]


def _own(paths: Mapping[Path, Any], path: Path) -> tuple[Any, ...]:
    """Return the value in a tuple, so that true is not 1 and what is absent is not null."""
    return (isinstance(paths[path], bool), paths[path]) if path in paths else ()


_SECTIONS = ("mode", "limits", "ladder", "tools", "allow_list", "partial_ok", "on_stale", "review")
_LIMIT_ORDER = list(LIMITS)


def _order(path: Path) -> tuple[int, int, Path]:
    section = _SECTIONS.index(path[0]) if path[0] in _SECTIONS else len(_SECTIONS)
    known = path[0] == "limits" and path[-1] in LIMITS
    return section, _LIMIT_ORDER.index(path[-1]) if known else 0, path


def own_values(document: Mapping[str, Any], inherited: Inheritance) -> Iterator[tuple[str, Value]]:
    """Yield label and value of what holds: every limit, and whatever else is said here or above."""
    own = paths_of(document)
    known = {*(("limits", name) for name in LIMITS), *own, *paths_of(inherited.document)}
    known |= {(name,) for name in ("mode", "allow_list", "partial_ok", "on_stale")}
    # That a tool is named needs no line where something is said of it.
    known -= {path[:2] for path in known if len(path) == 3}
    for path in sorted(known, key=_order):
        yield label_of(path), Value(said(path, own[path])) if path in own else inherited.value(path)
