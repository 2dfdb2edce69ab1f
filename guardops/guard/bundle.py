"""The policy bundle: what the server says to the guards of one tenant, whole, and how both ends read it.

A bundle is one JSON document a tenant. Its revision orders it, its content hash proves it, its epoch names
the database's lineage. The canonical form of every hash and signature is JSON with sorted keys, without
spaces, in UTF-8; the content hash leaves out what changes without the content: itself, issued_at, revision
and epoch.

A policy document holds only what differs from the level above it, field by field: ``mode``, ``limits``,
``ladder``, ``tools``, ``allow_list``, ``partial_ok``, ``on_stale``, ``review``. The levels are the built-in
limits, the bundle's defaults, and the document of the job type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any

import msgspec

from guardops.guard.blocklist import NO_BLOCKS, Block, BlockAction, Blocklist
from guardops.guard.events import OnTimeout
from guardops.guard.fields import PolicyError, micro_usd
from guardops.guard.policy import BOUNDS, FORBIDDEN_TOOL, Policy

SCHEMA = 1
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
MAX_BYTES = 1024 * 1024
MAX_GZIPPED_BYTES = 256 * 1024
MAX_JOB_TYPES = 500
MAX_BLOCKED = 20_000
MAX_STALE_S = 86_400

BUILTIN = Policy()
"""The limits that hold where nobody has said anything."""

_OUTSIDE_THE_HASH = frozenset({"content_hash", "issued_at", "revision", "epoch"})
_NESTED = ("limits", "ladder", "review")
_DOCUMENT_KEYS = frozenset(
    {"mode", "limits", "ladder", "tools", "allow_list", "partial_ok", "on_stale", "review"}
)
_REVIEW_KEYS = frozenset({"sla_s", "on_timeout", "resume_max"})
_RESUME_LIMITS = MappingProxyType({"steps": "max_steps", "seconds": "max_seconds", "cost": "max_cost"})
_MOST_MOMENTS = 100
_LONGEST_SLA_S = 30 * 86_400


class BundleError(ValueError):
    """A bundle that must not be put in force; ``code`` is what the guard reports in ``GuardOps-Reject``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OnStale(StrEnum):
    """What holds once a bundle is older than ``max_stale_s`` and the server can't be asked."""

    KEEP = "keep"
    BUILTIN = "builtin"
    """The stricter of the policy's own and the built-in limits."""
    REFUSE = "refuse"
    """No new run starts."""


class StopScope(StrEnum):
    """What a stop order ends."""

    TENANT = "tenant"
    JOB_TYPE = "job_type"
    TASK = "task"
    RUN = "run"


class BlockedSource(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """A domain or tool of the blocklist: ``action`` block, or limit to ``limit`` calls a run."""

    kind: str
    name: str
    action: str = "block"
    limit: int = 0
    exact: bool = False
    """Whether only this host is meant, and not its subdomains."""
    reason: str = ""
    expires_at: Moment | None = None

    def holds(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


class SigningKey(msgspec.Struct, kw_only=True, frozen=True):
    """A secret that decisions and envelopes of this tenant are signed with; two may live at once."""

    kid: str
    secret: str
    not_after: Moment | None = None


class StopOrder(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """A person's order that what ``scope`` and ``name`` say makes no further call."""

    id: str
    scope: StopScope
    name: str = ""
    reason: str = ""
    expires_at: Moment | None = None

    def holds(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at

    def ends(self, *, job_type: str, root_task_id: str, run_id: str, external_id: str = "") -> bool:
        """Say whether the order is about this run, which a run's order may also name by its foreign id."""
        match self.scope:
            case StopScope.TENANT:
                return True
            case StopScope.JOB_TYPE:
                return self.name == job_type
            case StopScope.TASK:
                return self.name == root_task_id
            case StopScope.RUN:
                return self.name in (run_id, external_id)

    @property
    def ends_the_root(self) -> bool:
        """Whether the whole task is over, and not only the runs that the order names."""
        return self.scope in (StopScope.TENANT, StopScope.TASK)


@dataclass(frozen=True, slots=True)
class Review:
    """How escalated runs are handled: seconds until a person should have decided, and what happens if nobody
    does."""

    sla_s: int = 1_800
    on_timeout: OnTimeout = OnTimeout.STOP
    resume_max: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Most steps, seconds and micro-USD; what is not named may not be added."""


_REVIEW = Review()


@dataclass(frozen=True, slots=True)
class JobRules:
    """What a job type is held to, read from its document; ``version`` 0 is no document of its own."""

    policy: Policy
    version: int = 0
    on_stale: OnStale = OnStale.KEEP
    review: Review = field(default_factory=Review)


class Bundle(msgspec.Struct, kw_only=True, frozen=True, dict=True):
    """A tenant's bundle as it came; ``rules`` reads the part that a job type needs."""

    schema: int
    tenant: str
    epoch: str
    revision: int
    content_hash: str
    issued_at: Moment
    max_stale_s: int = MAX_STALE_S
    defaults: dict[str, Any] = {}
    job_types: dict[str, dict[str, Any]] = {}
    blocked: tuple[BlockedSource, ...] = ()
    signing: tuple[SigningKey, ...] = ()
    stops: tuple[StopOrder, ...] = ()

    @property
    def etag(self) -> str:
        return etag(self.epoch, self.revision, self.content_hash)

    @cached_property
    def blocklist(self) -> Blocklist:
        """The blocked sources, indexed by name: made once, and shared by all runs."""
        return Blocklist(
            Block(item.kind, item.name, BlockAction(item.action), item.limit, item.exact, item.expires_at)
            for item in self.blocked
        )

    def rules(self, job_type: str, now: datetime, declared: Policy = BUILTIN) -> JobRules:
        """Return what a job type is held to at ``now``, laid over what the application itself has declared.

        Raises :class:`PolicyError`.
        """
        job = self.job_types.get(job_type, {})
        document = merge(in_force(self.defaults, now), in_force(job, now))
        return read_rules(document, self.blocklist, declared)

    def changes_at(self, job_type: str, now: datetime) -> datetime | None:
        """Return when a job type's rules change by themselves next; None where they don't."""
        ends = [
            *_ends(self.defaults),
            *_ends(self.job_types.get(job_type, {})),
        ]
        return min((moment for moment in ends if moment > now), default=None)


def canonical(value: object) -> bytes:
    """Return the canonical form of plain data: sorted keys, no spaces, UTF-8."""
    return msgspec.json.encode(value, order="deterministic")


def content_hash(document: Mapping[str, Any]) -> str:
    """Return ``sha256:<hex>`` of a bundle's content."""
    content = {name: value for name, value in document.items() if name not in _OUTSIDE_THE_HASH}
    return f"sha256:{hashlib.sha256(canonical(content)).hexdigest()}"


def etag(epoch: str, revision: int, hash_: str) -> str:
    """Return ``"<epoch>.<revision>.<hash16>"``, quoted as HTTP wants it."""
    return f'"{epoch}.{revision}.{short_hash(hash_)}"'


def short_hash(hash_: str) -> str:
    """Return the first 16 hexadecimal digits of a content hash."""
    return hash_.removeprefix("sha256:")[:16]


def merge(above: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy document laid over the one above it, field by field."""
    merged = {**above, **document}
    for name in _NESTED:
        if name in above and name in document:
            merged[name] = {**above[name], **document[name]}
    if "tools" in above and "tools" in document:
        merged["tools"] = dict(above["tools"])
        for tool, spec in document["tools"].items():
            merged["tools"][tool] = {**above["tools"].get(tool, {}), **spec}
    return merged


def in_force(document: Mapping[str, Any], now: datetime) -> Mapping[str, Any]:
    """Return a document of a bundle as it is at ``now``: at its ``until`` it gives way to its ``then``."""
    version = document.get("version")
    while (until := document.get("until")) is not None and datetime.fromisoformat(until) <= now:
        document = document["then"]
    current = {name: value for name, value in document.items() if name not in ("until", "then")}
    return current if version is None else {**current, "version": version}


def read_rules(
    document: Mapping[str, Any], blocked: Blocklist = NO_BLOCKS, declared: Policy = BUILTIN
) -> JobRules:
    """Read a merged policy document over what the application has ``declared``.

    Field by field the document goes first. What it makes an allow-list of is the tools that it names itself.
    Raises :class:`PolicyError` naming the field that is wrong.
    """
    if unknown := sorted(document.keys() - _DOCUMENT_KEYS - {"version"}):
        raise PolicyError(unknown[0], "is not known")
    limits = document.get("limits", {})
    if not isinstance(limits, Mapping):
        raise PolicyError("limits", "must be an object")
    rest = {
        name: document[name]
        for name in ("mode", "tools", "allow_list", "partial_ok", "ladder")
        if name in document
    }
    policy = declared.under({**limits, **rest})
    if document.get("allow_list") and declared.tools:
        named = document.get("tools", {})
        outside = {tool: FORBIDDEN_TOOL for tool in declared.tools if tool not in named}
        policy = replace(policy, tools=MappingProxyType({**policy.tools, **outside}))
    if blocked:
        policy = replace(policy, blocked=policy.blocked.joined(blocked))
    version = document.get("version", 0)
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise PolicyError("version", "must be a whole number")
    try:
        on_stale = OnStale(document.get("on_stale", OnStale.KEEP))
    except ValueError:
        raise PolicyError("on_stale", f"must be one of {', '.join(OnStale)}") from None
    return JobRules(policy, version, on_stale, _review(document.get("review", {})))


def check_rules(
    defaults: Mapping[str, Any], job_types: Mapping[str, Mapping[str, Any]], now: datetime
) -> None:
    """Read every job type's rules, at ``now`` and whenever one of them changes by itself.

    Raises :class:`PolicyError` for the first that is wrong.
    """
    moments = {now}
    for document in (defaults, *job_types.values()):
        moments.update(_ends(document))
    if len(moments) > _MOST_MOMENTS:
        raise PolicyError("until", "too many policies end at different times")
    for moment in sorted(moments):
        above = in_force(defaults, moment)
        for document in ({}, *job_types.values()):
            read_rules(merge(above, in_force(document, moment)))


def read_bundle(body: bytes, *, tenant: str | None) -> Bundle:
    """Read and prove a bundle of ``tenant`` (None: of whichever it names).

    Every job type's rules are read once, so that none fails later.
    Raises :class:`BundleError`: ``too_large``, ``malformed``, ``unknown_schema``, ``wrong_tenant``,
    ``wrong_hash`` or ``invalid_policy``.
    """
    if len(body) > MAX_BYTES:
        raise BundleError("too_large", "the bundle has more than 1 MiB")
    try:
        document = msgspec.json.decode(body)
        bundle = msgspec.convert(document, Bundle)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise BundleError("malformed", str(error)) from error
    if bundle.schema != SCHEMA:
        raise BundleError("unknown_schema", f"schema {bundle.schema} is not known")
    if tenant is not None and bundle.tenant != tenant:
        raise BundleError("wrong_tenant", "the bundle is another tenant's")
    if bundle.content_hash != content_hash(document):
        raise BundleError("wrong_hash", "the content is not what its hash says")
    try:
        check_rules(bundle.defaults, bundle.job_types, bundle.issued_at)
        _ = bundle.blocklist  # made here, and not in the way of the first run
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise BundleError("invalid_policy", str(error)) from error
    return bundle


def _ends(document: Mapping[str, Any]) -> Iterator[datetime]:
    """Yield the moments at which a document of a bundle gives way to another."""
    while (until := document.get("until")) is not None:
        yield datetime.fromisoformat(until)
        document = document["then"]


def _review(document: object) -> Review:
    if not isinstance(document, Mapping):
        raise PolicyError("review", "must be an object")
    if unknown := sorted(document.keys() - _REVIEW_KEYS):
        raise PolicyError(f"review.{unknown[0]}", "is not known")
    sla_s = document.get("sla_s", _REVIEW.sla_s)
    if isinstance(sla_s, bool) or not isinstance(sla_s, int) or not 1 <= sla_s <= _LONGEST_SLA_S:
        raise PolicyError("review.sla_s", f"must lie between 1 and {_LONGEST_SLA_S} seconds")
    try:
        on_timeout = OnTimeout(document.get("on_timeout", _REVIEW.on_timeout))
    except ValueError:
        raise PolicyError("review.on_timeout", f"must be one of {', '.join(OnTimeout)}") from None
    return Review(sla_s, on_timeout, _resume_max(document.get("resume_max", {})))


def _resume_max(document: object) -> Mapping[str, int]:
    if not isinstance(document, Mapping):
        raise PolicyError("review.resume_max", "must be an object")
    most: dict[str, int] = {}
    for name, value in document.items():
        where = f"review.resume_max.{name}"
        if name not in _RESUME_LIMITS:
            raise PolicyError(where, "is not known")
        amount = micro_usd(value, field_name=where) if name == "cost" else value
        high = BOUNDS[_RESUME_LIMITS[name]][1]
        if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= high:
            raise PolicyError(where, f"must be a whole number up to {high:g}")
        most[name] = amount
    return MappingProxyType(most)
