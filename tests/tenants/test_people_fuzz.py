"""Whatever is sent to the forms of people and organisations gets an answer, and never a crash."""

from __future__ import annotations

import pytest
from django.test import Client
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pytest_django import Settings

from guardops.tenants.models import Throttle
from tests.factories import make_invitation

from .conftest import Cast

pytestmark = pytest.mark.django_db

TEXT = st.one_of(
    st.text(max_size=300),
    st.sampled_from(["", "\0", "\u202e", "9" * 400, "-1", "NaN", "1e5000", "⟦U+D800⟧", "⟦U+0000⟧", "%00"]),
    st.integers().map(str),
)
FIELDS = {
    "/login/": ["username", "password", "next"],
    "/password/forgotten/": ["who"],
    "/password/new/x/y/": ["new_password1", "new_password2"],
    "/settings/account/": ["first_name", "last_name", "email", "password", "keyboard_shortcuts"],
    "/settings/account/password/": ["old_password", "new_password1", "new_password2"],
    "/settings/organisations/acme/": ["version", "name", "time_zone", "retention_days", "allowed_domains"],
    "/settings/organisations/acme/new-tenant/": ["name", "slug"],
    "/settings/tenants/research/": ["name"],
    "/settings/members/invite/": ["invitee", "place", "role"],
}


@pytest.mark.parametrize("path", FIELDS)
def test_a_form_takes_any_text(client: Client, cast: Cast, settings: Settings, path: str) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    client.force_login(cast.organisation_admin)
    answered(client, path, FIELDS[path])


def test_an_invitations_form_takes_any_text(client: Client, cast: Cast) -> None:
    _, token = make_invitation(cast.tenant)
    answered(client, f"/invitation/{token}/", ["username", "email", "password1", "password2"])


def answered(client: Client, path: str, fields: list[str]) -> None:
    @examples(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(sent=st.fixed_dictionaries(dict.fromkeys(fields, TEXT)))
    def post(sent: dict[str, str]) -> None:
        Throttle.objects.all().delete()
        form = {name: text.encode("utf-8", "replace").decode() for name, text in sent.items()}
        assert client.post(path, form).status_code < 500

    post()


@pytest.mark.parametrize(
    "path",
    [
        "/settings/members/?page={}",
        "/settings/organisations/{}/",
        "/settings/tenants/{}/",
        "/settings/members/{}/",
        "/settings/invitations/{}/revoke/",
        "/invitation/{}/",
        "/password/new/{}/{}/",
    ],
)
def test_an_address_takes_any_text(client: Client, cast: Cast, path: str) -> None:
    client.force_login(cast.organisation_admin)
    for text in ("%00", "%ED%A0%80", "9" * 400, "-1", "%E2%80%AE", "a%2Fb", "NaN", "x" * 5_000):
        address = path.format(text, text)
        assert client.get(address).status_code in {200, 404}, text
        assert client.post(address).status_code in {200, 404, 405}, text


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/settings/organisations/acme/", "time_zone"),
        ("/settings/members/invite/", "place"),
        ("/settings/members/invite/", "role"),
        ("/settings/organisations/acme/", "allowed_domains"),
    ],
)
def test_an_error_that_quotes_what_was_sent_hides_nothing(
    client: Client, cast: Cast, path: str, field: str
) -> None:
    client.force_login(cast.organisation_admin)
    page = client.post(path, {field: "exe\u202egpj"}).content.decode()
    assert "\u202e" not in page
    assert "⟦U+202E⟧" in page
