"""The page of signing secrets: it names them, shows none, and replaces them."""

from __future__ import annotations

from django.test import Client

from policies.models import SigningSecret
from policies.publish.upkeep import rotate_secret
from tests.policies.conftest import NOW, House, bundle_of

from .conftest import text_of


def test_secret_is_named_and_never_shown(browser: Client, house: House) -> None:
    rotate_secret(house.tenant, actor=house.admin, now=NOW)
    secret = SigningSecret.objects.get()
    page = text_of(browser.get("/signing/"))
    assert secret.kid in page
    assert secret.secret not in page


def test_rotated_secret_reaches_guards_beside_the_one_before(browser: Client, house: House) -> None:
    rotate_secret(house.tenant, actor=house.admin, now=NOW)
    response = browser.post("/signing/research/rotate/", follow=True)
    assert "Published for 1 tenant" in text_of(response)
    assert [key.not_after is None for key in bundle_of(house.tenant).signing] == [False, True]


def test_secret_that_leaked_is_gone_at_once(browser: Client, house: House) -> None:
    rotate_secret(house.tenant, actor=house.admin, now=NOW)
    leaked = SigningSecret.objects.get().kid
    browser.post("/signing/research/rotate/", {"leaked": "1"})
    assert leaked not in [key.kid for key in bundle_of(house.tenant).signing]
