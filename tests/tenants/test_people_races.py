"""People's pages at once, on connections of their own: the counts hold, and one wins."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest
from django.core.exceptions import PermissionDenied, ValidationError

from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.errors import (
    EditedMeanwhile,
    GuardOpsError,
    InvalidInvitation,
    InvalidLink,
    TooManyTries,
)
from guardops.tenants.invitations import accept, accept_as_new, revoke_invitation
from guardops.tenants.models import Invitation, Membership, Organisation, Throttle, User
from guardops.tenants.organisations import create_tenant, update_organisation
from guardops.tenants.passwords import find_by_link, reset_password, reset_path
from guardops.tenants.people import change_role, create_user, remove_member
from guardops.tenants.throttle import Guess, take_try
from tests.factories import (
    NOW,
    PASSWORD,
    make_invitation,
    make_member,
    make_organisation,
    make_tenant,
    make_user,
)

from .test_races import AT_ONCE, together

pytestmark = pytest.mark.django_db(transaction=True)


def outcome(act: Callable[[], object]) -> str:
    try:
        act()
    except GuardOpsError as error:
        return error.code
    return "done"


def numbered(act: Callable[[int], object]) -> list[str]:
    """Return how it ended for each of several at once, each with a number of its own."""
    numbers, lock = itertools.count(), threading.Lock()

    def one() -> str:
        with lock:
            number = next(numbers)
        return outcome(lambda: act(number))

    return sorted(map(str, together(one)))


def test_one_of_many_who_open_a_link_gets_its_role() -> None:
    people = [make_user() for _ in range(AT_ONCE)]
    _, token = make_invitation(make_tenant(), now=NOW)
    ended = numbered(lambda number: accept(token, user=people[number], now=NOW))
    assert ended == ["accepted"] * (AT_ONCE - 1) + ["done"]
    assert Membership.objects.filter(user__in=people).count() == 1


def test_one_of_many_new_people_with_a_link_is_made() -> None:
    _, token = make_invitation(make_tenant(), now=NOW)
    ended = numbered(
        lambda number: accept_as_new(token, username=f"new-{number}", email="", password=PASSWORD, now=NOW)
    )
    assert ended == ["accepted"] * (AT_ONCE - 1) + ["done"]
    assert User.objects.filter(username__startswith="new-").count() == 1


def test_an_invitation_is_accepted_or_taken_back_and_never_both() -> None:
    tenant, user = make_tenant(), make_user()
    admin = make_member(tenant, Role.ADMIN)
    invitation, token = make_invitation(tenant, by=admin, now=NOW)
    numbered(
        lambda number: (
            accept(token, user=user, now=NOW)
            if number % 2
            else revoke_invitation(Invitation.objects.get(), actor=admin, now=NOW)
        )
    )
    invitation.refresh_from_db()
    assert (invitation.accepted_at is None) != (invitation.revoked_at is None)
    assert user.memberships.exists() == (invitation.accepted_at is not None)


@pytest.mark.parametrize("way", ["remove", "lower"])
def test_admins_who_remove_each_other_at_once_leave_one(way: str) -> None:
    organisation = make_organisation()
    admins = [make_member(organisation, Role.ADMIN) for _ in range(AT_ONCE)]
    held = [admin.memberships.select_related("organisation").get() for admin in admins]

    def act(number: int) -> None:
        if way == "remove":
            remove_member(held[number], actor=admins[number])
        else:
            change_role(held[number], Role.VIEWER, actor=admins[number])

    assert numbered(act) == ["done"] * (AT_ONCE - 1) + ["last_admin"]
    assert Membership.objects.filter(role=Role.ADMIN).count() == 1


def test_guesses_at_once_are_no_more_than_the_limit() -> None:
    def guess() -> list[str]:
        def one() -> object:
            return take_try(Guess.PASSWORD, name="mara", address="192.0.2.1", now=NOW)

        return [outcome(one) for _ in range(5)]

    ended = [one for each in together(guess) for one in each]  # type: ignore[attr-defined]
    assert ended.count("done") == Guess.PASSWORD.value.pair.free
    assert ended.count(TooManyTries.default_code) == len(ended) - ended.count("done")


def test_many_names_from_one_address_at_once_are_counted_one_by_one() -> None:
    names = itertools.count()

    def guess() -> list[str]:
        return [
            outcome(lambda: take_try(Guess.PASSWORD, name=f"n-{next(names)}", address="192.0.2.1", now=NOW))
            for _ in range(15)
        ]

    ended = [one for each in together(guess) for one in each]  # type: ignore[attr-defined]
    assert ended.count("done") == Guess.PASSWORD.value.address.free
    assert Throttle.objects.filter(level__gt=1).count() == 1


def test_one_of_many_uses_of_a_link_sets_the_password() -> None:
    user = make_user()
    uid, token = reset_path(user).split("/")[-3:-1]
    assert find_by_link(uid, token) == user
    ended = numbered(lambda number: reset_password(uid, token, f"{PASSWORD} {number}"))
    assert ended == ["done"] + [InvalidLink.default_code] * (AT_ONCE - 1)


def test_one_of_many_edits_of_one_version_is_saved() -> None:
    organisation = make_organisation()

    def edit(number: int) -> None:
        update_organisation(
            Organisation.objects.get(),
            version=1,
            name=f"Name {number}",
            time_zone="UTC",
            retention_days=number + 1,
            allowed_domains=[],
            actor=make_user(f"editor-{number}"),
        )

    assert numbered(edit) == ["done"] + [EditedMeanwhile.default_code] * (AT_ONCE - 1)
    organisation.refresh_from_db()
    assert organisation.version == 2
    assert organisation.name == f"Name {(organisation.retention_days or 0) - 1}"


def test_an_admin_who_is_removed_meanwhile_invites_nobody() -> None:
    organisation = make_organisation()
    first, second = (make_member(organisation, Role.ADMIN) for _ in range(2))
    membership = second.memberships.select_related("organisation").get()

    def act(number: int) -> None:
        if number == 0:
            remove_member(membership, actor=first)
        else:
            make_invitation(organisation, by=second, now=NOW)

    def each(number: int) -> None:
        try:
            act(number)
        except PermissionDenied as error:  # who came after
            raise InvalidInvitation(str(error)) from None

    numbered(each)
    assert not Invitation.objects.open(NOW).filter(created_by=second).exists()


@pytest.mark.parametrize("what", ["tenant", "person"])
def test_a_name_taken_at_the_same_moment_is_said(what: str) -> None:
    organisation = make_organisation()

    def make(_: int) -> None:
        try:
            if what == "tenant":
                create_tenant(organisation=organisation, slug="same", name="Same", actor=SYSTEM)
            else:
                create_user(username="same", password=PASSWORD, actor=SYSTEM)
        except ValidationError as error:
            raise GuardOpsError(str(error), code="taken") from None

    assert numbered(make) == ["done"] + ["taken"] * (AT_ONCE - 1)
