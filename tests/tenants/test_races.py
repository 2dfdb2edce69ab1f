"""Two at once, on connections of their own: one does it, the other is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import connection

from guardops.tenants import keys
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.errors import InvalidKey
from guardops.tenants.models import ApiKey, Membership, User
from guardops.tenants.people import set_membership
from guardops.tenants.rotation import rotate_key
from guardops.tenants.setup import first_start
from tests.factories import NOW, make_key, make_tenant, make_user

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = 4


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    keys.forget()
    yield
    keys.forget()


def together(act: Callable[[], object]) -> list[object]:
    """Return what each of several threads got that started at the same moment."""
    start = Barrier(AT_ONCE)

    def one(_: int) -> object:
        try:
            start.wait(timeout=10)
            return act()
        finally:
            connection.close()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(AT_ONCE)))


def test_first_starts_at_once_make_one_admin() -> None:
    logins = together(first_start)
    assert sum(login is not None for login in logins) == 1
    assert User.objects.count() == 1


def test_revocations_at_once_are_one() -> None:
    key, _ = make_key(make_tenant())

    def revoke() -> str:
        try:
            keys.revoke_key(ApiKey.objects.get(pk=key.pk), actor=SYSTEM, now=NOW)
        except InvalidKey as error:
            return error.code
        return "done"

    assert sorted(map(str, together(revoke))) == ["already_revoked"] * (AT_ONCE - 1) + ["done"]


def test_rotations_at_once_make_one_key() -> None:
    key, _ = make_key(make_tenant())

    def rotate() -> str:
        try:
            rotate_key(ApiKey.objects.get(pk=key.pk), grace=timedelta(days=1), actor=SYSTEM, now=NOW)
        except InvalidKey as error:
            return error.code
        return "done"

    assert sorted(map(str, together(rotate))) == ["already_rotated"] * (AT_ONCE - 1) + ["done"]
    assert ApiKey.objects.count() == 2


def test_first_grants_at_once_make_one_membership() -> None:
    tenant, user = make_tenant(), make_user()
    together(
        lambda: set_membership(user=user, organisation=tenant.organisation, role=Role.ADMIN, actor=SYSTEM)
    )
    assert Membership.objects.filter(user=user).count() == 1


def test_uses_written_at_once_disturb_nobody() -> None:
    tenant = make_tenant()
    made = [make_key(tenant) for _ in range(5)]

    def use() -> int:
        for _, plain in made:
            keys.authenticate(f"Bearer {plain}", NOW)
        return keys.write_last_used(NOW)

    together(use)
    assert ApiKey.objects.filter(last_used_at=NOW).count() == 5
