"""The part of the OpenAPI document about bundles: how guards pull their policies. Pure."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from guardops.guard.bundle import etag, short_hash

from .bundles import POLL_AFTER, POLL_AFTER_FULL
from .openapi_parts import REF, Piece, answer, header, parameter, problems, wait

_EXAMPLE = Path(__file__).with_name("examples") / "bundle.json"
_GUARD = parameter(
    "GuardOps-Guard",
    "header",
    "A UUID of this process, made after it forked.",
    {"type": "string", "format": "uuid"},
    "0198c0de-7a11-7000-8000-5eed006d77e1",
)
_REFUSED = ["unauthenticated", "key_revoked", "key_expired", "missing_scope"]
_FAILED = ["internal", "unavailable"]
_BAD_BODY = [
    *("not_json", "bad_encoding", "body_timeout", "body_too_large"),
    *("unsupported_media_type", "unsupported_encoding"),
]


@functools.cache
def example() -> Piece:
    """Return a bundle with everything that one may hold; its hash is right."""
    bundle: Piece = json.loads(_EXAMPLE.read_text())
    return bundle


def get_bundle() -> Piece:
    return {
        "operationId": "getBundle",
        "summary": "Pull a tenant's bundle: its policies, blocked sources and stop orders.",
        "description": (
            "Needs the scope bundle:read. With wait, a guard that has the newest bundle is answered when a"
            " newer one is there, or 304 when its time is over. The next request acknowledges what the last"
            " one brought: GuardOps-Applied says what is in force. A guard puts a lower revision in force"
            " only with another epoch."
        ),
        "parameters": [wait(), *_headers()],
        "responses": {
            "200": answer("The newest bundle, whole.", "application/json", "Bundle")
            | {"headers": _etag() | _poll() | _encoding()},
            "304": {
                "description": "The guard has the newest bundle, or has refused this very one.",
                "headers": _etag() | _poll(),
            },
            **problems(["bad_request", *_REFUSED, "unknown_tenant", *_FAILED]),
        },
    }


def post_bundles() -> Piece:
    held = {"etag": _etag_of(), "applied": f"{_named()};src=server;age=12"}
    return {
        "operationId": "postBundles",
        "summary": "Pull the bundles of several tenants at once, for a process that runs them all.",
        "description": (
            "Needs the scope bundle:read. Waits for all of them as a single pull does, and answers those that"
            " changed. Tenants that the key doesn't cover, or that are gone, are named in removed. Each"
            " bundle is byte for byte what its hash proves."
        ),
        "parameters": [wait(), _GUARD],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {"$ref": REF.format(name="BundlesAsked")},
                    "example": {"tenants": {example()["tenant"]: held}},
                }
            },
        },
        "responses": {
            "200": answer("The bundles that changed.", "application/json", "BundlesReply")
            | {"headers": _poll() | _encoding()},
            "304": {"description": "None has changed.", "headers": _poll()},
            **problems([*_BAD_BODY, "bad_request", *_REFUSED, *_FAILED, "overloaded"]),
        },
    }


def _headers() -> list[Piece]:
    return [
        parameter("If-None-Match", "header", "The ETag of the bundle held.", {"type": "string"}, _etag_of()),
        _GUARD,
        parameter(
            "GuardOps-Applied",
            "header",
            "What is in force: revision, the first 16 digits of its hash, where it came from (server, file or"
            " builtin) and its age in seconds.",
            {"type": "string"},
            f"{_named()};src=server;age=12",
        ),
        parameter(
            "GuardOps-Reject",
            "header",
            "A bundle that was refused, and why; it is not sent again.",
            {"type": "string"},
            f"{example()['revision'] + 1}:{'0' * 16};wrong_hash",
        ),
        parameter(
            "GuardOps-Tenant",
            "header",
            "The tenant; needed where the key covers several.",
            {"type": "string"},
            example()["tenant"],
        ),
    ]


def _etag() -> Piece:
    return {
        "ETag": header(
            'Epoch, revision and the first 16 digits of the hash: "<epoch>.<revision>.<hash>".',
            {"type": "string"},
        ),
        "GuardOps-Revision": header("The newest revision.", {"type": "integer"}),
    }


def _poll() -> Piece:
    full, usual = POLL_AFTER_FULL.decode(), POLL_AFTER.decode()
    return {
        "GuardOps-Long-Poll": header(
            "1: ask again at once. 0: the server holds no more requests; poll.",
            {"type": "string", "enum": ["0", "1"]},
        ),
        "GuardOps-Poll-After": header(
            f"Seconds until the next poll, give or take a fifth: {usual}, or {full} where it is full.",
            {"type": "integer"},
        ),
        "Cache-Control": header("Nobody else may keep it.", {"const": "private, no-store"}),
        "Vary": header("Another key may have another answer.", {"const": "Authorization"}),
    }


def _encoding() -> Piece:
    return {
        "Content-Encoding": header(
            "The body is gzipped for whoever accepts that.", {"type": "string", "enum": ["gzip"]}
        )
    }


def _etag_of() -> str:
    return etag(example()["epoch"], example()["revision"], example()["content_hash"])


def _named() -> str:
    return f"{example()['revision']}:{short_hash(example()['content_hash'])}"
