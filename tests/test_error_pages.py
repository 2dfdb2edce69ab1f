"""What people see when something is wrong: our own pages, each with a next step."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.views import defaults


def request() -> HttpRequest:
    return RequestFactory().get("/")


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (
            lambda: defaults.permission_denied(request(), PermissionDenied()),
            403,
            "Your role does not allow this",
        ),
        (lambda: defaults.page_not_found(request(), Http404()), 404, "There is nothing here"),
        (lambda: defaults.server_error(request()), 500, "Something broke on our side"),
        (lambda: defaults.bad_request(request(), ValueError()), 400, "The request makes no sense"),
        (lambda: Client(enforce_csrf_checks=True).post("/login/"), 403, "This form is no longer valid"),
    ],
)
def test_error_has_a_page_with_a_next_step(answer: object, status: int, said: str) -> None:
    response = answer()  # type: ignore[operator]

    assert isinstance(response, HttpResponse)
    assert response.status_code == status
    html = response.content.decode()
    assert said in html
    assert "To the overview" in html


def test_refusal_says_what_it_takes_and_hides_what_is_unseen() -> None:
    refused = PermissionDenied("This needs the role admin in Acme\u202e.")
    page = defaults.permission_denied(request(), refused).content.decode()

    assert "This needs the role admin in Acme" in page
    assert "\u202e" not in page


def test_error_page_tells_nothing_of_the_fault() -> None:
    response = defaults.page_not_found(request(), Http404("tenant 7 of globex"))

    assert "globex" not in response.content.decode()
