from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from guardops.guard.errors import RETRYABLE, ErrorClass, classify, in_band


@pytest.mark.parametrize(
    ("status", "error_class"),
    [
        *((status, ErrorClass.AUTH) for status in (401, 403, 407)),
        (402, ErrorClass.QUOTA),
        *((status, ErrorClass.PERMANENT) for status in (400, 404, 405, 410, 422, 501)),
        *((status, ErrorClass.PROVIDER) for status in (500, 505, 507, 520)),
        *((status, ErrorClass.TIMEOUT) for status in (408, 504)),
        *((status, ErrorClass.RATE_LIMIT) for status in (425, 429)),
        *((status, ErrorClass.UNAVAILABLE) for status in (502, 503, 529)),
        *((status, ErrorClass.PRECONDITION) for status in (409, 412, 428)),
        (200, ErrorClass.UNKNOWN),
    ],
)
def test_http_status_decides(status: int, error_class: ErrorClass) -> None:
    failure = classify({"status": status})
    assert failure.error_class is error_class
    assert failure.retryable == (error_class in RETRYABLE)


def test_text_never_decides() -> None:
    for text in ("429 Too Many Requests, retry after 5", "temporary error, call again", "401 unauthorized"):
        failure = classify(text)
        assert (failure.error_class, failure.retryable) == (ErrorClass.UNKNOWN, False)
    assert classify({"message": "503 Service Unavailable"}).error_class is ErrorClass.UNKNOWN


@pytest.mark.parametrize(
    "code", ["quota_exhausted", "insufficient_quota", "Quota-Exceeded", "dailyQuotaExceeded"]
)
def test_a_quota_code_is_permanent_even_under_429(code: str) -> None:
    failure = classify({"status": 429, "code": code, "retryable": True, "retry_after": 5})
    assert (failure.error_class, failure.retryable, failure.retry_after) == (ErrorClass.QUOTA, False, None)


def test_the_payload_comes_before_the_status() -> None:
    assert classify({"status": 500, "error_code": "rate_limited"}).error_class is ErrorClass.RATE_LIMIT
    assert classify({"status": 404, "retryable": True}).retryable


def test_a_payload_lowers_what_the_status_allows() -> None:
    failure = classify({"status": 503, "retryable": False})
    assert (failure.error_class, failure.retryable) == (ErrorClass.UNAVAILABLE, False)


@pytest.mark.parametrize("status", [401, 402, 403, 407])
def test_a_payload_raises_nothing_above_auth_and_quota(status: int) -> None:
    failure = classify({"status": status, "code": "rate_limited", "retryable": True})
    assert failure.error_class in (ErrorClass.AUTH, ErrorClass.QUOTA)
    assert not failure.retryable


def test_an_unknown_code_alone_is_unknown() -> None:
    failure = classify({"code": "exit_1"})
    assert (failure.error_class, failure.code) == (ErrorClass.UNKNOWN, "exit_1")


@pytest.mark.parametrize(
    ("payload", "error_class"),
    [
        ({"code": 429}, ErrorClass.RATE_LIMIT),
        ({"code": "503"}, ErrorClass.UNAVAILABLE),
        ({"status": "401"}, ErrorClass.AUTH),
        ({"status": 404, "code": 503}, ErrorClass.PERMANENT),
        ({"code": 1045}, ErrorClass.UNKNOWN),
        ({"code": "gatewayTimeout"}, ErrorClass.TIMEOUT),
        ({"code": "quotation_missing"}, ErrorClass.UNKNOWN),
        ({"code": "PermissionError"}, ErrorClass.PERMANENT),
        ({"class": "httpx.ReadTimeout"}, ErrorClass.TIMEOUT),
    ],
)
def test_codes_are_read_in_the_spellings_in_use(payload: dict[str, Any], error_class: ErrorClass) -> None:
    assert classify(payload).error_class is error_class


def test_the_tools_own_map_wins() -> None:
    codes = {"exit_75": ErrorClass.UNAVAILABLE, "403": ErrorClass.RATE_LIMIT}
    assert classify({"code": "exit_75"}, codes=codes).retryable
    assert classify({"status": 403}, codes=codes).error_class is ErrorClass.RATE_LIMIT
    assert not classify({"code": "exit_1"}, codes=codes).retryable


@pytest.mark.parametrize(
    ("name", "error_class"),
    [
        ("validation", ErrorClass.PERMANENT),
        ("not_found", ErrorClass.PERMANENT),
        ("timeout", ErrorClass.TIMEOUT),
        ("TimeoutError", ErrorClass.TIMEOUT),
        ("ConnectionResetError", ErrorClass.RESET),
        ("auth", ErrorClass.AUTH),
        ("precondition", ErrorClass.PRECONDITION),
        ("Surprise", ErrorClass.UNKNOWN),
    ],
)
def test_a_class_name_decides_without_a_status(name: str, error_class: ErrorClass) -> None:
    assert classify({"class": name}).error_class is error_class
    assert classify({"class": name, "status": 404}).error_class is ErrorClass.PERMANENT


class ReadTimeout(Exception):
    pass


class SlowRead(ReadTimeout):
    pass


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (TimeoutError(), ErrorClass.TIMEOUT),
        (SlowRead(), ErrorClass.TIMEOUT),
        (ConnectionResetError(), ErrorClass.RESET),
        (ConnectionRefusedError(), ErrorClass.UNAVAILABLE),
        (FileNotFoundError(), ErrorClass.PERMANENT),
        (KeyError("x"), ErrorClass.PERMANENT),
        (RuntimeError("timeout"), ErrorClass.UNKNOWN),
    ],
)
def test_an_exception_is_known_by_its_type(error: Exception, error_class: ErrorClass) -> None:
    assert classify(error).error_class is error_class


def test_an_exception_with_a_response_is_known_by_its_status_and_waits_as_told() -> None:
    error = RuntimeError("slow down")
    error.response = SimpleNamespace(status_code=429, headers={"Retry-After": "7"})  # type: ignore[attr-defined]
    failure = classify(error)
    assert (failure.error_class, failure.retry_after) == (ErrorClass.RATE_LIMIT, 7)


def test_an_exceptions_body_names_its_code() -> None:
    error = RuntimeError("no money")
    error.status_code = 429  # type: ignore[attr-defined]
    error.body = {"error": {"code": "insufficient_quota"}}  # type: ignore[attr-defined]
    assert classify(error).error_class is ErrorClass.QUOTA


@pytest.mark.parametrize(
    ("code", "error_class"),
    [
        (-32700, ErrorClass.PERMANENT),
        (-32600, ErrorClass.PERMANENT),
        (-32601, ErrorClass.PERMANENT),
        (-32602, ErrorClass.PERMANENT),
        (-32002, ErrorClass.PERMANENT),
        (-32603, ErrorClass.PROVIDER),
        (-32000, ErrorClass.UNKNOWN),
    ],
)
def test_a_jsonrpc_code_decides_last(code: int, error_class: ErrorClass) -> None:
    failure = classify({"jsonrpc": code})
    assert (failure.error_class, failure.retryable) == (error_class, False)
    assert classify({"jsonrpc": code, "status": 503}).error_class is ErrorClass.UNAVAILABLE


def test_the_structured_part_of_an_mcp_error_decides_and_its_text_does_not() -> None:
    result = {
        "isError": True,
        "content": [{"type": "text", "text": "503"}],
        "structuredContent": {"status": 503},
    }
    assert classify(in_band(result)).retryable
    del result["structuredContent"]
    assert classify(in_band(result)).error_class is ErrorClass.UNKNOWN


@pytest.mark.parametrize(
    ("result", "error_class"),
    [
        ({"is_error": True, "content": "overloaded"}, ErrorClass.UNKNOWN),
        ({"error_code": "not_found"}, ErrorClass.PERMANENT),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "m"}}, ErrorClass.PERMANENT),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "data": {"status": 401}}}, ErrorClass.AUTH),
    ],
)
def test_an_error_hidden_in_a_result_is_found(result: dict[str, Any], error_class: ErrorClass) -> None:
    hidden = in_band(result)
    assert hidden is not None
    assert classify(hidden).error_class is error_class


@pytest.mark.parametrize(
    "result", [None, "isError", [], {"isError": False}, {"error": "text"}, {"error_code": ""}]
)
def test_an_ordinary_result_hides_no_error(result: Any) -> None:
    assert in_band(result) is None


def test_what_may_not_be_retried_has_no_time() -> None:
    assert classify({"status": 404, "retry_after": 5}).retry_after is None


def test_a_secret_that_a_service_answers_as_its_code_is_hidden() -> None:
    assert classify({"code": "AKIAABCDEFGHIJKLMNOP"}).code == "***"
    assert classify({"code": "invalid_api_key"}).error_class is ErrorClass.AUTH
