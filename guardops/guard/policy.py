"""What a run is held to: limits, tool specifications, the ladder's options. Every limit is finite.

Keys are the ones of the policy documents and case files. A limit of 0 allows nothing; an absent, unlimited
or absurd one is refused with a :class:`PolicyError` that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from guardops.guard.blocklist import NO_BLOCKS, Block, BlockAction, Blocklist, read_blocks
from guardops.guard.errors import ErrorClass
from guardops.guard.events import Action, Mode
from guardops.guard.fields import (
    MICRO,
    PolicyError,
    micro_usd,
    read_choice,
    read_flag,
    read_list,
    read_names,
    require_number,
)
from guardops.guard.reasons import Reason
from guardops.guard.rungs import read_ladder

__all__ = [
    "BOUNDS",
    "DEFAULT_TOOL",
    "FORBIDDEN_TOOL",
    "MICRO",
    "Block",
    "BlockAction",
    "Kind",
    "Limits",
    "Policy",
    "PolicyError",
    "Poll",
    "SideEffect",
    "ToolSpec",
    "micro_usd",
]


class SideEffect(StrEnum):
    """What a tool does to the world; an undeclared tool reads."""

    READ = "read"
    WRITE = "write"
    SIDE_EFFECT = "side_effect"


class Kind(StrEnum):
    """Whether a tool does the work itself, hands it over, or starts another agent."""

    CALL = "call"
    DELEGATE = "delegate"
    SPAWN = "spawn"


@dataclass(frozen=True, slots=True)
class Limits:
    """The caps of one run. Times are seconds, ``max_cost`` is USD in the document and micro-USD here."""

    max_steps: int = 40
    max_turns: int = 40
    max_seconds: float = 900.0
    max_tokens: int = 5_000_000
    max_cost: int = 10 * MICRO
    max_repeats: int = 3
    max_empty: int = 1
    max_retries: int = 2
    max_retries_run: int = 6
    max_executions: int = 12
    max_refusals: int = 3
    window: int = 12
    max_period: int = 4
    cycle_reps: int = 3
    stall_limit: int = 6
    max_error_streak: int = 5
    domain_cap: int = 15
    listing_cap: int = 10
    hops: int = 4
    descendants: int = 20
    children: int = 8
    backoff: float = 1.0
    max_retry_after: float = 60.0

    def __post_init__(self) -> None:
        for name, (low, high) in BOUNDS.items():
            require_number(name, getattr(self, name), low, high, whole=name not in _FRACTIONAL)
        if self.window < 2 * self.cycle_reps:
            raise PolicyError("window", f"must hold {self.cycle_reps} repeats of a period of 2")


BOUNDS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "max_steps": (0, 500),
        "max_turns": (0, 500),
        "max_seconds": (0, 7 * 86_400),
        "max_tokens": (0, 1_000_000_000),
        "max_cost": (0, 10_000 * MICRO),
        "max_repeats": (0, 100),
        "max_empty": (0, 100),
        "max_retries": (0, 20),
        "max_retries_run": (0, 100),
        "max_executions": (0, 100),
        "max_refusals": (0, 100),
        "window": (4, 100),
        "max_period": (2, 12),
        "cycle_reps": (2, 10),
        "stall_limit": (0, 100),
        "max_error_streak": (0, 100),
        "domain_cap": (0, 500),
        "listing_cap": (0, 500),
        "hops": (0, 32),
        "descendants": (0, 1_000),
        "children": (0, 100),
        "backoff": (0, 60),
        "max_retry_after": (0, 3_600),
    }
)
"""Lowest and highest value of each limit; beyond the highest a limit bounds nothing any more."""

_FRACTIONAL = frozenset({"max_seconds", "backoff", "max_retry_after"})


@dataclass(frozen=True, slots=True)
class Poll:
    """A polling contract: seconds between polls, most polls, most seconds, and the states that end it."""

    interval: float
    max_attempts: int
    max_seconds: float = 86_400.0
    terminal: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        require_number("poll.interval", self.interval, 0, 86_400, whole=False)
        require_number("poll.max_attempts", self.max_attempts, 0, 10_000, whole=True)
        require_number("poll.max_seconds", self.max_seconds, 0, 7 * 86_400, whole=False)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the guard is told of one tool; everything has a safe default."""

    side_effect: SideEffect = SideEffect.READ
    kind: Kind = Kind.CALL
    key: frozenset[str] = frozenset()
    """The only arguments that make the identity, where named."""
    fields: frozenset[str] = frozenset()
    """The only arguments the tool takes, where named: any other is refused."""
    volatile: frozenset[str] = frozenset()
    credentials: frozenset[str] = frozenset()
    strip: frozenset[str] = frozenset()
    casefold: frozenset[str] = frozenset()
    sets: frozenset[str] = frozenset()
    null_is_omitted: bool = True
    empty: tuple[Any, ...] = ()
    """Results that count as empty beside the general rule."""
    poll: Poll | None = None
    max_repeats: int | None = None
    max_empty: int | None = None
    max_retries: int | None = None
    approval: bool = False
    forbidden: bool = False
    idempotent: bool = False
    external: bool = False
    errors: Mapping[str, ErrorClass] = field(default_factory=lambda: MappingProxyType({}))
    writes: bool = field(init=False)
    """Whether a call may change the world."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "writes", self.side_effect is not SideEffect.READ)
        for name in ("max_repeats", "max_empty", "max_retries"):
            value = getattr(self, name)
            if value is not None:
                require_number(name, value, *BOUNDS[name], whole=True)

    @classmethod
    def from_mapping(
        cls, name: str, document: Mapping[str, Any], declared: ToolSpec | None = None
    ) -> ToolSpec:
        """Read one tool of a document, over what is ``declared`` of it already.

        Raises :class:`PolicyError` on an unknown key or a wrong value.
        """
        where = f"tools.{name}"
        if not isinstance(document, Mapping):
            raise PolicyError(where, "must be an object")
        values: dict[str, Any] = {}
        for key, value in document.items():
            target, read = _TOOL_READERS.get(key, (None, None))
            if target is None or read is None:
                raise PolicyError(f"{where}.{key}", "is not known")
            values[target] = read(f"{where}.{key}", value)
        return replace(declared or cls(), **values)


DEFAULT_TOOL = ToolSpec()
FORBIDDEN_TOOL = ToolSpec(forbidden=True)


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything a run is judged by. Immutable: a running run keeps the one that it was given."""

    limits: Limits = field(default_factory=Limits)
    tools: Mapping[str, ToolSpec] = field(default_factory=lambda: MappingProxyType({}))
    allow_list: bool = False
    """Whether a tool that is not named is forbidden."""
    blocked: Blocklist = NO_BLOCKS
    mode: Mode = Mode.ENFORCE
    partial_ok: bool = True
    """Whether a forced, partial answer is better than waiting for a person."""
    ladder: Mapping[Reason, Action] = field(default_factory=lambda: MappingProxyType({}))
    """The rungs that reasons start on, where not on the usual ones."""

    def tool(self, name: str) -> ToolSpec:
        """Return a tool's specification; one not named reads, or is forbidden under an allow-list."""
        spec = self.tools.get(name)
        if spec is not None:
            return spec
        return FORBIDDEN_TOOL if self.allow_list else DEFAULT_TOOL

    @classmethod
    def from_mapping(cls, document: Mapping[str, Any]) -> Policy:
        """Build a policy from the defaults and the document's overrides; see :meth:`under`."""
        return cls().under(document)

    def under(self, document: Mapping[str, Any]) -> Policy:
        """Return this policy with a document laid over it, field by field.

        Raises :class:`PolicyError` for a key it does not know and for a limit that is null, not a number,
        negative or absurdly high.
        """
        limits: dict[str, Any] = {}
        values: dict[str, Any] = {}
        for key, value in document.items():
            if key == "max_cost":
                limits[key] = micro_usd(value, field_name=key)
            elif key in BOUNDS:
                limits[key] = value
            elif key == "tools":
                values[key] = _tools(key, value, self.tools)
            elif key == "ladder":
                values[key] = MappingProxyType({**self.ladder, **read_ladder(key, value)})
            elif key in _POLICY_READERS:
                values[key] = _POLICY_READERS[key](key, value)
            else:
                raise PolicyError(key, "is not known")
        return replace(self, limits=replace(self.limits, **limits), **values)

    def limits_in_force(self) -> dict[str, Any]:
        """Return the limits under their document names, money as a decimal string in USD."""
        found = {item.name: getattr(self.limits, item.name) for item in fields(Limits)}
        found["max_cost"] = str(Decimal(self.limits.max_cost) / MICRO)
        return found


def _limit(name: str, value: object) -> int:
    require_number(name, value, *BOUNDS[name.rpartition(".")[2]], whole=True)
    assert isinstance(value, int)
    return value


def _poll(name: str, value: object) -> Poll:
    if not isinstance(value, Mapping):
        raise PolicyError(name, "must be an object")
    unknown = set(value) - {"interval", "max_attempts", "max_seconds", "terminal"}
    missing = {"interval", "max_attempts"} - set(value)
    if unknown or missing:
        raise PolicyError(f"{name}.{min(unknown or missing)}", "is not known" if unknown else "is missing")
    return Poll(**{**value, "terminal": read_names(f"{name}.terminal", value.get("terminal", ()))})


def _error_map(name: str, value: object) -> Mapping[str, ErrorClass]:
    if not isinstance(value, Mapping):
        raise PolicyError(name, "must be an object")
    return MappingProxyType(
        {str(code): read_choice(f"{name}.{code}", kind, ErrorClass) for code, kind in value.items()}
    )


def _tools(name: str, value: object, declared: Mapping[str, ToolSpec]) -> Mapping[str, ToolSpec]:
    """Read tools over those that are declared already."""
    if not isinstance(value, Mapping):
        raise PolicyError(name, "must be an object")
    read = {
        tool: ToolSpec.from_mapping(tool, spec, declared.get(tool, DEFAULT_TOOL))
        for tool, spec in value.items()
    }
    return MappingProxyType({**declared, **read})


_TOOL_READERS: Mapping[str, tuple[str, Any]] = MappingProxyType(
    {
        "class": ("side_effect", lambda name, value: read_choice(name, value, SideEffect)),
        "kind": ("kind", lambda name, value: read_choice(name, value, Kind)),
        "key": ("key", read_names),
        "fields": ("fields", read_names),
        "volatile": ("volatile", read_names),
        "credentials": ("credentials", read_names),
        "strip": ("strip", read_names),
        "casefold": ("casefold", read_names),
        "sets": ("sets", read_names),
        "null_is_omitted": ("null_is_omitted", read_flag),
        "empty": ("empty", read_list),
        "poll": ("poll", _poll),
        "max_repeats": ("max_repeats", _limit),
        "max_empty": ("max_empty", _limit),
        "max_retries": ("max_retries", _limit),
        "approval": ("approval", read_flag),
        "forbidden": ("forbidden", read_flag),
        "idempotent": ("idempotent", read_flag),
        "external": ("external", read_flag),
        "errors": ("errors", _error_map),
    }
)

_POLICY_READERS: Mapping[str, Any] = MappingProxyType(
    {
        "allow_list": read_flag,
        "blocked": read_blocks,
        "mode": lambda name, value: read_choice(name, value, Mode),
        "partial_ok": read_flag,
    }
)
