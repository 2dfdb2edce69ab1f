"""The pages of people and organisations in a real Chromium."""

from __future__ import annotations

import pytest
from django.contrib.auth.tokens import default_token_generator
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from pytest_django import Settings

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from tests.browser.conftest import LOOKS, Desk, Desks, Look
from tests.browser.seeds import HOSTILE
from tests.browser.test_every_page import complaints, faults
from tests.browser.watch import Watch
from tests.factories import PASSWORD, make_invitation, make_member, make_tenant
from tests.hostile.payloads import PAYLOADS

SIGNED_IN = [
    "organisations",
    "members",
    "invite",
    "account",
    "password-change",
]


@pytest.fixture
def admin(tenant: Tenant) -> User:
    """An admin of an organisation that has a bit of everything, with names that attackers chose."""
    make_tenant("support", organisation=tenant.organisation)
    make_member(tenant, Role.VIEWER, username="kim")
    person = make_member(tenant.organisation, Role.ADMIN, username="mara")
    User.objects.filter(username="kim").update(first_name=HOSTILE[:150], email="kim@example.com")
    Tenant.objects.filter(pk=tenant.pk).update(name=HOSTILE)
    make_invitation(tenant, invitee=HOSTILE, by=person)
    return person


def addresses(tenant: Tenant, admin: User) -> list[str]:
    kim = tenant.memberships.get(user__username="kim")
    invitation = tenant.invitations.get()
    slug = tenant.organisation.slug
    return [
        *(reverse(f"tenants:{name}") for name in SIGNED_IN),
        reverse("tenants:organisation", args=[slug]),
        reverse("tenants:tenant-create", args=[slug]),
        reverse("tenants:tenant-rename", args=[tenant.slug]),
        reverse("tenants:member", args=[kim.pk]),
        reverse("tenants:member-remove", args=[kim.pk]),
        reverse("tenants:invitation-revoke", args=[invitation.pk]),
        reverse("tenants:invitation", args=[make_invitation(tenant, by=admin)[1]]),
    ]


def open_addresses(tenant: Tenant, admin: User) -> list[str]:
    uid = urlsafe_base64_encode(force_bytes(admin.pk))
    return [
        reverse("tenants:login"),
        reverse("tenants:password-reset"),
        reverse("tenants:password-link", args=[uid, default_token_generator.make_token(admin)]),
        reverse("tenants:password-link", args=[uid, "none"]),
        reverse("tenants:invitation", args=["none"]),
        reverse("tenants:invitation", args=[make_invitation(tenant, by=admin)[1]]),
    ]


def wrong_on(desk: Desk, paths: list[str]) -> dict[str, list[str]]:
    """Open each page; return what is wrong on each, without those where nothing is."""
    found = {}
    for path in paths:
        desk.open(path)
        wide = desk.sideways_scroll()
        if wrong := [*faults(desk), *([f"{wide} pixels too wide"] if wide else [])]:
            found[path] = wrong
    return found


def test_pages_are_accessible_and_keep_to_the_policy(desk: Desks, tenant: Tenant, admin: User) -> None:
    paths = addresses(tenant, admin)
    wide, phone = desk(admin, LOOKS[0]), desk(admin, LOOKS[3])
    # What is not looked at on the phone is a form like the others.
    assert {**wrong_on(wide, paths), **wrong_on(phone, paths[:6])} == {}
    assert complaints(wide) + complaints(phone) == []


@pytest.mark.parametrize("look", [LOOKS[1], LOOKS[2]], ids=str)
def test_pages_before_signing_in_are_accessible_and_keep_to_the_policy(
    desk: Desks, tenant: Tenant, admin: User, look: Look, settings: Settings
) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    at = desk(None, look)
    assert wrong_on(at, open_addresses(tenant, admin)) == {}
    assert complaints(at) == []


def test_an_invitation_is_made_copied_and_accepted(desk: Desks, tenant: Tenant, admin: User) -> None:
    host = desk(admin)
    page = host.open(reverse("tenants:invite"))
    page.get_by_label("Whom").fill("lee")
    page.get_by_label("Where").select_option(label="Support")
    page.get_by_label("Reviewer").check()
    page.get_by_role("button", name="Make the invitation").click()
    assert faults(host) == []
    link = page.locator("#link").inner_text()

    guest = desk(None, LOOKS[3])
    page = guest.open(link.removeprefix(guest.base_url))
    page.get_by_label("Name", exact=True).fill("lee")
    page.get_by_label("Password", exact=True).fill("a fine long password")
    page.get_by_label("Password again").fill("a fine long password")
    page.get_by_role("button", name="Make the account and join").click()
    page.wait_for_url(guest.base_url + "/")
    assert "Welcome to Support" in page.get_by_role("status").first.inner_text()
    assert User.objects.get(username="lee").memberships.get().role == Role.REVIEWER


def test_who_saves_second_sees_both_and_keeps_what_was_typed(
    desk: Desks, tenant: Tenant, admin: User
) -> None:
    first, second = desk(admin), desk(admin, LOOKS[3])
    path = reverse("tenants:organisation", args=[tenant.organisation.slug])
    pages = [at.open(path) for at in (first, second)]
    for page, days in zip(pages, ("20", "10"), strict=True):
        page.get_by_label("Keep runs for (days)").fill(days)
        page.get_by_role("button", name="Save").click()
    page = pages[1]
    row = page.get_by_role("row").filter(has_text="Keep runs for")
    assert [cell.strip() for cell in row.get_by_role("cell").all_inner_texts()] == ["20", "10"]
    assert page.get_by_label("Keep runs for (days)").input_value() == "10"
    assert faults(second) == []
    assert second.sideways_scroll() == 0
    page.get_by_role("button", name="Save mine").click()
    page.wait_for_url(first.base_url + path)
    tenant.organisation.refresh_from_db()
    assert tenant.organisation.retention_days == 10


def test_too_many_tries_are_told_when_to_come_back(desk: Desks, tenant: Tenant, admin: User) -> None:
    at = desk(None, LOOKS[2])
    for _ in range(6):
        page = at.open("/login/?next=/runs/")
        page.get_by_label("Username").fill("mara")
        page.get_by_label("Password").fill("wrong")
        page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Too many tries").wait_for()
    assert faults(at) == []
    page.get_by_role("link", name="Back").click()
    assert page.url == at.base_url + "/login/?next=%2Fruns%2F"
    assert PASSWORD not in page.content()


def test_names_of_attackers_are_only_text(desk: Desks, tenant: Tenant) -> None:
    organisation = tenant.organisation
    admin = make_member(organisation, Role.ADMIN, username="mara")
    for number, payload in enumerate(PAYLOADS):
        kim = make_member(tenant, username=f"kim-{number}")
        User.objects.filter(pk=kim.pk).update(first_name=payload[:150], email=payload[-254:])
        make_invitation(tenant, invitee=payload[:254], by=admin)
        Tenant.objects.filter(pk=make_tenant(organisation=organisation).pk).update(name=payload[:128])
    watch = Watch(desk(admin))
    for name in ("organisations", "members", "invite"):
        watch.open(reverse(f"tenants:{name}"))

    assert watch.faults == {}
    assert watch.unread(payload[:128] for payload in PAYLOADS) == []
