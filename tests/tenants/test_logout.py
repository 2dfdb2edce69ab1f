from __future__ import annotations

from django.test import Client

from .conftest import Cast


def test_a_post_ends_the_session(client: Client, cast: Cast) -> None:
    client.force_login(cast.viewer)
    response = client.post("/logout/")
    assert (response.status_code, response["Location"]) == (302, "/login/")
    assert "_auth_user_id" not in client.session


def test_a_link_ends_nothing(client: Client, cast: Cast) -> None:
    client.force_login(cast.viewer)
    assert client.get("/logout/").status_code == 405
    assert "_auth_user_id" in client.session


def test_a_post_from_elsewhere_ends_nothing(cast: Cast) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast.viewer)
    assert client.post("/logout/").status_code == 403
    assert "_auth_user_id" in client.session
