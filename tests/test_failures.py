"""A page that could not be made says why as far as a person can act on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.auth.decorators import login_not_required
from django.db import OperationalError, connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path

from guardops.urls import handler500 as handler500  # the product's own


@login_not_required
def unreachable(request: HttpRequest) -> HttpResponse:
    raise OperationalError("connection to server on socket /run/db failed")


@login_not_required
def slow(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 1")
        cursor.execute("SELECT pg_sleep(1)")
    return HttpResponse()


@login_not_required
def broken(request: HttpRequest) -> HttpResponse:
    raise ValueError("a fault of ours")


urlpatterns = [path("unreachable", unreachable), path("slow", slow), path("broken", broken)]


@pytest.fixture
def browser() -> Iterator[Client]:
    with override_settings(ROOT_URLCONF=__name__):
        yield Client(raise_request_exception=False)


def test_unreachable_database_answers_503_with_retry_after(browser: Client) -> None:
    response = browser.get("/unreachable")

    assert response.status_code == 503
    assert response["Retry-After"] == "5"
    assert "/run/db" not in response.content.decode()


@pytest.mark.django_db
def test_statement_past_its_time_answers_503(browser: Client) -> None:
    assert browser.get("/slow").status_code == 503


def test_fault_of_ours_answers_500(browser: Client) -> None:
    response = browser.get("/broken")

    assert response.status_code == 500
    assert "Something broke on our side" in response.content.decode()
