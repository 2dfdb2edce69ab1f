"""The zone of the person who looks."""

from __future__ import annotations

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.utils import timezone

from guardops.viewer import ViewerZoneMiddleware, current_zone, viewer


def zone_of_a_request(cookie: str | None, session: dict[str, str] | None = None) -> str:
    request = RequestFactory().get("/")
    request.session = session or {}  # type: ignore[assignment]
    if cookie is not None:
        request.COOKIES["zone"] = cookie
    middleware = ViewerZoneMiddleware(lambda _: HttpResponse(current_zone()))
    return middleware(request).content.decode()


@pytest.mark.parametrize("name", ["Asia/Kathmandu", "Etc/GMT+5"])  # the second has no summer time
def test_cookie_with_a_zone_sets_it_for_the_request_only(name: str) -> None:
    assert zone_of_a_request(name) == name
    assert timezone.get_current_timezone_name() == "UTC"


@pytest.mark.parametrize("cookie", [None, "", "Mars/Base", "../../etc/passwd", "Europe", "\0", "x" * 4000])
def test_cookie_that_names_no_zone_leaves_utc(cookie: str | None) -> None:
    assert zone_of_a_request(cookie) == "UTC"


def test_page_knows_whether_its_clock_is_local() -> None:
    request = RequestFactory().get("/")
    assert viewer(request)["clock_is_local"] is False
    with timezone.override("Europe/Berlin"):
        assert viewer(request)["clock_is_local"] is True


@pytest.mark.parametrize(
    ("cookie", "zone"), [(None, "Asia/Kathmandu"), ("", "UTC"), ("Europe/Berlin", "Europe/Berlin")]
)
def test_clock_that_nobody_set_is_the_organisations(cookie: str | None, zone: str) -> None:
    assert zone_of_a_request(cookie, session={"zone": "Asia/Kathmandu"}) == zone
