"""What the server answers a guard: what became of its events, or the problem with its request."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Raw, Struct


class Problem(Struct, kw_only=True, omit_defaults=True):
    """An RFC 9457 problem document, as every error of the gate is one."""

    type: str
    title: str
    status: int
    code: str
    retryable: bool
    request_id: str
    detail: str = ""


class ResultStatus(StrEnum):
    """What became of one event; accepted ones are not named in a reply."""

    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    REJECTED = "rejected"
    SANITIZED = "sanitized"


class EventResult(Struct, kw_only=True, omit_defaults=True):
    """What became of the event at ``index`` (0-based) of a request."""

    index: int
    status: ResultStatus
    code: str = ""
    field: str = ""
    message: str = ""


class EventsReply(Struct, kw_only=True, omit_defaults=False):
    """The reply to a post of events, sent once they are committed."""

    accepted: int
    duplicates: int
    results: list[EventResult]
    bundle_revision: int | None = None
    bundle_revisions: dict[str, int] | None = None
    unknown_fields: int = 0


class BundleAsked(Struct, kw_only=True, omit_defaults=True):
    """What a guard has of one tenant's bundle, as in the headers of a single pull."""

    etag: Annotated[str, Meta(max_length=128)] = ""
    applied: Annotated[str, Meta(max_length=256)] = ""
    reject: Annotated[str, Meta(max_length=256)] = ""


class BundlesAsked(Struct, kw_only=True):
    """What a guard of many tenants asks for, by tenant."""

    tenants: Annotated[dict[str, BundleAsked], Meta(min_length=1, max_length=1_000)]


class BundlesReply(Struct, kw_only=True):
    """The bundles that changed, as they were published; the newest revisions; tenants the key has not."""

    bundles: dict[str, Raw]
    revisions: dict[str, int]
    removed: list[str]
