"""What kind of failure a tool call ended in, from evidence alone: the text of a message never decides.

Order of evidence: the explicit payload, the HTTP status, the exception's type, the JSON-RPC code, the
structured part of an MCP error, an Anthropic ``is_error``. Without any of them a failure is unknown, and an
unknown failure is not retryable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from guardops.guard.hiding import hide
from guardops.guard.retry_after import seconds_to_wait
from guardops.guard.texts import encodable


class ErrorClass(StrEnum):
    """What may be done about a failure."""

    AUTH = "auth"
    QUOTA = "quota"
    PERMANENT = "permanent"
    PROVIDER = "provider"
    """The provider's own failure (500 and its like): nothing to retry, nothing the agent did."""
    RATE_LIMIT = "rate_limit"
    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    RESET = "reset"
    PRECONDITION = "precondition"
    UNKNOWN = "unknown"


RETRYABLE = frozenset({ErrorClass.RATE_LIMIT, ErrorClass.UNAVAILABLE, ErrorClass.TIMEOUT, ErrorClass.RESET})
"""Classes that may be asked again after a while."""

PROVIDER_FAILURES = RETRYABLE | {ErrorClass.PROVIDER}
"""Classes that say something about the provider and nothing about the agent."""

OUTCOME_UNKNOWN = frozenset({ErrorClass.TIMEOUT, ErrorClass.RESET})
"""Classes after which a write may or may not have happened."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A classified failure. ``retry_after`` is in seconds from now, None where the provider named no time."""

    error_class: ErrorClass
    code: str = ""
    retryable: bool = False
    retry_after: float | None = None


_CEILING = frozenset({ErrorClass.AUTH, ErrorClass.QUOTA})
"""What no payload may talk its way out of."""

_BY_STATUS: Mapping[int, ErrorClass] = MappingProxyType(
    {
        **dict.fromkeys((401, 403, 407), ErrorClass.AUTH),
        402: ErrorClass.QUOTA,
        **dict.fromkeys((408, 504), ErrorClass.TIMEOUT),
        **dict.fromkeys((409, 412, 428), ErrorClass.PRECONDITION),
        **dict.fromkeys((425, 429), ErrorClass.RATE_LIMIT),
        **dict.fromkeys((502, 503, 529), ErrorClass.UNAVAILABLE),
        501: ErrorClass.PERMANENT,
    }
)

_QUOTA_CODES = frozenset(
    {
        "billing_error",
        "billing_hard_limit_reached",
        "billing_not_active",
        "credit_balance_too_low",
        "credits_exhausted",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_funds",
        "insufficient_quota",
        "monthly_spending_cap_exceeded",
        "payment_required",
        "spending_cap_exceeded",
        "spending_limit_exceeded",
        "usage_limit_exceeded",
        "usage_limit_reached",
    }
)

_BY_NAME: Mapping[str, ErrorClass] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "auth",
                "authentication_error",
                "forbidden",
                "invalid_api_key",
                "permission_denied",
                "permission_error",
                "unauthenticated",
                "unauthorized",
            ),
            ErrorClass.AUTH,
        ),
        **dict.fromkeys(_QUOTA_CODES, ErrorClass.QUOTA),
        **dict.fromkeys(
            (
                "bad_request",
                "eacces",
                "eexist",
                "eisdir",
                "enoent",
                "enotdir",
                "invalid",
                "invalid_argument",
                "invalid_params",
                "invalid_request",
                "invalid_request_error",
                "method_not_allowed",
                "method_not_found",
                "no_match",
                "not_found",
                "not_found_error",
                "not_implemented",
                "eperm",
                "permanent",
                "permission",
                "unprocessable",
                "unsupported",
                "validation",
                "validation_error",
            ),
            ErrorClass.PERMANENT,
        ),
        **dict.fromkeys(
            (
                "api_error",
                "internal",
                "internal_error",
                "internal_server_error",
                "provider",
                "server",
                "server_error",
            ),
            ErrorClass.PROVIDER,
        ),
        **dict.fromkeys(
            (
                "rate_limit",
                "rate_limit_error",
                "rate_limit_exceeded",
                "rate_limited",
                "throttled",
                "too_many_requests",
            ),
            ErrorClass.RATE_LIMIT,
        ),
        **dict.fromkeys(
            (
                "bad_gateway",
                "econnrefused",
                "overloaded",
                "overloaded_error",
                "retryable",
                "service_unavailable",
                "temporarily_unavailable",
                "temporary",
                "transient",
                "unavailable",
            ),
            ErrorClass.UNAVAILABLE,
        ),
        **dict.fromkeys(
            (
                "deadline_exceeded",
                "etimedout",
                "gateway_timeout",
                "request_timeout",
                "timed_out",
                "timeout",
                "timeout_error",
            ),
            ErrorClass.TIMEOUT,
        ),
        **dict.fromkeys(
            ("connection", "connection_reset", "econnreset", "epipe", "network", "reset"), ErrorClass.RESET
        ),
        **dict.fromkeys(
            ("conflict", "failed_precondition", "precondition", "precondition_failed"),
            ErrorClass.PRECONDITION,
        ),
        "unknown": ErrorClass.UNKNOWN,
    }
)
"""Codes and class names in common use, in lower case with underscores."""

_BY_EXCEPTION: Mapping[str, ErrorClass] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "TimeoutError",
                "TimeoutException",
                "Timeout",
                "APITimeoutError",
                "ReadTimeout",
                "ConnectTimeout",
            ),
            ErrorClass.TIMEOUT,
        ),
        "ConnectionRefusedError": ErrorClass.UNAVAILABLE,
        "ConnectError": ErrorClass.UNAVAILABLE,
        **dict.fromkeys(
            ("ConnectionError", "ConnectionResetError", "BrokenPipeError", "APIConnectionError"),
            ErrorClass.RESET,
        ),
        **dict.fromkeys(("ReadError", "WriteError", "RemoteProtocolError"), ErrorClass.RESET),
        **dict.fromkeys(
            (
                "FileExistsError",
                "FileNotFoundError",
                "IsADirectoryError",
                "LookupError",
                "NotADirectoryError",
                "NotImplementedError",
                "PermissionError",
                "TypeError",
                "ValueError",
                "ValidationError",
            ),
            ErrorClass.PERMANENT,
        ),
    }
)
"""Exceptions by the name of their type or of one they derive from, so that no client library is imported."""

_BY_JSONRPC: Mapping[int, ErrorClass] = MappingProxyType(
    {
        **dict.fromkeys((-32700, -32600, -32601, -32602, -32002), ErrorClass.PERMANENT),
        -32603: ErrorClass.PROVIDER,
    }
)

_WORD_BREAK = re.compile(r"[-\s]|(?<=[a-z0-9])(?=[A-Z])")

_NO_CODES: Mapping[str, ErrorClass] = MappingProxyType({})


def classify(
    error: object, *, codes: Mapping[str, ErrorClass] = _NO_CODES, now: datetime | None = None
) -> Failure:
    """Classify a failure.

    ``error`` is an exception, a text, or a mapping that may hold ``retryable``, ``error_code`` or ``code``,
    ``class``, ``status``, ``jsonrpc``, ``retry_after`` (seconds or an HTTP date), or the error object of an
    MCP or Anthropic tool result. ``codes`` is the tool's own map, which an admin keeps and which therefore
    wins. ``now`` is needed to read a date.
    """
    payload = _payload_of(error)
    code = _code_of(payload)
    found = _mapped(payload, code, codes) or _by_evidence(payload, error, code)
    retryable = found in RETRYABLE
    claim = payload.get("retryable")
    if claim is False:
        retryable = False
    elif claim is True and found not in _CEILING and not retryable:
        found, retryable = ErrorClass.UNAVAILABLE, True
    wait = seconds_to_wait(payload.get("retry_after"), now) if retryable else None
    return Failure(found, code, retryable, wait)


def in_band(result: object) -> Mapping[str, Any] | None:
    """Return the error that a tool hid in its result (MCP, JSON-RPC, Anthropic, plain payload), or None."""
    if type(result) is str or not isinstance(result, Mapping):
        return None
    if result.get("isError") is True or result.get("is_error") is True:
        return result
    if isinstance(result.get("error_code"), str | int) and result["error_code"] not in ("", 0):
        return result
    error = result.get("error")
    if "jsonrpc" in result and isinstance(error, Mapping):
        return {"jsonrpc": error.get("code"), **_mapping(error.get("data"))}
    return None


def _by_evidence(payload: Mapping[str, Any], error: object, code: str) -> ErrorClass:
    by_status = _status_class(_status_of(payload))
    by_code = _by_name(code)
    if by_code is not None and by_status not in _CEILING:
        return by_code
    if by_status is not None:
        return by_status
    class_name = payload.get("class")
    if isinstance(class_name, str):
        by_class = _by_name(class_name)
        if by_class is not None:
            return by_class
    if isinstance(error, BaseException) and (by_type := _exception_class(error)):
        return by_type
    jsonrpc = payload.get("jsonrpc")
    return _BY_JSONRPC.get(jsonrpc, ErrorClass.UNKNOWN) if isinstance(jsonrpc, int) else ErrorClass.UNKNOWN


def _payload_of(error: object) -> Mapping[str, Any]:
    if isinstance(error, BaseException):
        return _payload_of_exception(error)
    if not isinstance(error, Mapping):
        return {}
    inner = error.get("structuredContent", error.get("structured_content"))
    if isinstance(inner, Mapping):
        nested = inner.get("error")
        return nested if isinstance(nested, Mapping) else inner
    return error


def _payload_of_exception(error: BaseException) -> Mapping[str, Any]:
    response = getattr(error, "response", None)
    found: dict[str, Any] = {}
    for owner in (error, response):
        for name in ("status_code", "status"):
            status = getattr(owner, name, None)
            if isinstance(status, int) and "status" not in found:
                found["status"] = status
    headers = getattr(response, "headers", None)
    if isinstance(headers, Mapping):
        lowered = {str(name).lower(): value for name, value in headers.items()}
        found["retry_after"] = lowered.get("retry-after")
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    for name in ("retryable", "error_code", "code"):
        value = getattr(error, name, None)
        if value is None and isinstance(inner, Mapping):
            value = inner.get(name)
        if isinstance(value, str | bool):
            found[name] = value
    return found


def _code_of(payload: Mapping[str, Any]) -> str:
    for name in ("error_code", "code"):
        code = payload.get(name)
        if isinstance(code, str | int) and not isinstance(code, bool) and code != "":
            return encodable(hide(str(code))[:64])
    status = payload.get("status")
    return str(status) if isinstance(status, int) else ""


def _status_of(payload: Mapping[str, Any]) -> int:
    """Return the HTTP status, which some services put under ``code`` and some write as text; 0 for none."""
    for name in ("status", "code", "error_code"):
        value = payload.get(name)
        if isinstance(value, str) and len(value) == 3 and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    return 0


def _by_name(name: str) -> ErrorClass | None:
    """Return the class that a code or the name of an exception stands for, if it is known."""
    plain = _plain(name)
    known = _BY_EXCEPTION.get(name.rpartition(".")[2]) or _BY_NAME.get(plain)
    return ErrorClass.QUOTA if known is None and "quota" in plain.split("_") else known


def _mapped(payload: Mapping[str, Any], code: str, codes: Mapping[str, ErrorClass]) -> ErrorClass | None:
    if not codes:
        return None
    return codes.get(code) or codes.get(str(payload.get("status"))) or codes.get(str(payload.get("jsonrpc")))


def _status_class(status: int) -> ErrorClass | None:
    found = _BY_STATUS.get(status)
    if found is None and 400 <= status < 500:
        return ErrorClass.PERMANENT
    if found is None and 500 <= status < 600:
        return ErrorClass.PROVIDER
    return found


def _exception_class(error: BaseException) -> ErrorClass | None:
    for kind in type(error).__mro__:
        found = _BY_EXCEPTION.get(kind.__name__)
        if found is not None:
            return found
    return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _plain(name: str) -> str:
    return _WORD_BREAK.sub("_", name.strip()).lower()
