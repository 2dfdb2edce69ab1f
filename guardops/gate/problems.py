"""Every error of the gate as a problem document (RFC 9457) with code, request id and whether to retry."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from django.db import Error as DatabaseError
from litestar import Request, Response
from litestar.exceptions import HTTPException, MethodNotAllowedException
from litestar.types import Scope

from guardops.guard.ids import new_uuid7
from guardops.guard.replies import EventResult, Problem
from guardops.tenants.errors import GuardOpsError

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
DOCS = "/api/v1/docs"


class Kind(NamedTuple):
    """What a code stands for: its status, its title, and whether the same request may succeed later."""

    status: int
    title: str
    retryable: bool = False
    retry_after: int | None = None  # seconds


KINDS: Mapping[str, Kind] = {
    "not_json": Kind(400, "The body is not JSON"),
    "not_events": Kind(400, "The body holds no events"),
    "bad_encoding": Kind(400, "The body can't be inflated"),
    "bad_request": Kind(400, "The request makes no sense"),
    "unauthenticated": Kind(401, "A key is needed"),
    "key_revoked": Kind(401, "The key is revoked"),
    "key_expired": Kind(401, "The key has expired"),
    "missing_scope": Kind(403, "The key may not do this"),
    "unknown_tenant": Kind(403, "The key doesn't cover this tenant"),
    "not_found": Kind(404, "There is nothing here"),
    "unknown_checkpoint": Kind(404, "There is no such checkpoint, or not yet", retryable=True),
    "method_not_allowed": Kind(405, "This can't be done here"),
    "body_timeout": Kind(408, "The body took too long", retryable=True),
    "already_consumed": Kind(409, "Another attempt has this decision"),
    "wrong_artifact": Kind(409, "The work has changed since the decision"),
    "not_delivered": Kind(409, "The decision was not handed out yet", retryable=True),
    "decision_expired": Kind(410, "Nobody took the decision up in time"),
    "body_too_large": Kind(413, "The body is too large"),
    "too_many_events": Kind(413, "The body holds too many events"),
    "unsupported_media_type": Kind(415, "The body's type is not supported"),
    "unsupported_encoding": Kind(415, "The body's encoding is not supported"),
    "every_event_rejected": Kind(422, "Every event was rejected"),
    "rate_limited": Kind(429, "Too many events", retryable=True, retry_after=1),
    "internal": Kind(500, "The server failed"),
    "busy": Kind(503, "The tenant is busy", retryable=True, retry_after=1),
    "overloaded": Kind(503, "The server is busy", retryable=True, retry_after=2),
    "unavailable": Kind(503, "The database is out of reach", retryable=True, retry_after=2),
}
_BY_STATUS = {400: "bad_request", 404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}


class Refusal(GuardOpsError):
    """A request that is refused; ``code`` is one of `KINDS`."""

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        results: list[EventResult] | None = None,
        unknown_fields: int = 0,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.results = results
        self.unknown_fields = unknown_fields
        self.retry_after = retry_after


class EventsProblem(Problem, kw_only=True, omit_defaults=True):
    """A problem that says what is wrong with each event."""

    results: list[EventResult] = []
    unknown_fields: int = 0


def request_id(scope: Scope) -> str:
    """Return the id of a request, the same each time it is asked for."""
    state: dict[str, Any] = scope.setdefault("state", {})
    if "guardops_request_id" not in state:
        state["guardops_request_id"] = str(new_uuid7())
    found: str = state["guardops_request_id"]
    return found


def refuse(request: Request[Any, Any, Any], error: GuardOpsError) -> Response[bytes]:
    """Answer with the problem that the error's code names."""
    kind = KINDS[error.code]
    problem = EventsProblem(
        type=f"{DOCS}#{error.code}",
        title=kind.title,
        status=kind.status,
        code=error.code,
        retryable=kind.retryable,
        request_id=request_id(request.scope),
        detail=error.message,
    )
    headers = {}
    if isinstance(error, Refusal):
        problem.results = error.results or []
        problem.unknown_fields = error.unknown_fields
    if kind.retry_after is not None:
        headers["Retry-After"] = str(getattr(error, "retry_after", None) or kind.retry_after)
    if kind.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="guardops"'
    return Response(
        msgspec.json.encode(problem), status_code=kind.status, media_type=MEDIA_TYPE, headers=headers
    )


def refuse_database(request: Request[Any, Any, Any], error: DatabaseError) -> Response[bytes]:
    log.warning("database out of reach: %s", error, extra={"request_id": request_id(request.scope)})
    return refuse(request, Refusal("unavailable", "Nothing was stored; send it again."))


def refuse_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Answer what the framework refuses by itself: no such path, no such method."""
    if error.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return fail(request, error)
    response = refuse(request, Refusal(_BY_STATUS.get(error.status_code, "bad_request")))
    if isinstance(error, MethodNotAllowedException):
        response.headers.update(error.headers or {})
    return response


def fail(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer what nobody foresaw; the log has the trace under the request's id."""
    log.error("request failed", exc_info=error, extra={"request_id": request_id(request.scope)})
    return refuse(request, Refusal("internal", "The log has more under this request's id."))


HANDLERS: Mapping[Any, Any] = {
    GuardOpsError: refuse,
    DatabaseError: refuse_database,
    HTTPException: refuse_http,
    Exception: fail,
}
