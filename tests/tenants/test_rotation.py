from __future__ import annotations

from datetime import timedelta

import pytest

from guardops.tenants import keys
from guardops.tenants.actors import SYSTEM
from guardops.tenants.errors import InvalidKey, Unauthenticated
from guardops.tenants.keys import revoke_key
from guardops.tenants.models import ApiKey, ApiKeyEvent
from guardops.tenants.rotation import rotate_key
from tests.factories import NOW, make_key, make_organisation, make_tenant, make_user

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _forget() -> None:
    keys.forget()


def refusal(plain: str, now: object = NOW) -> str:
    with pytest.raises(Unauthenticated) as caught:
        keys.authenticate(f"Bearer {plain}", now)  # type: ignore[arg-type]
    return caught.value.code


def refused(key: ApiKey, now: object = NOW) -> str:
    with pytest.raises(InvalidKey) as caught:
        rotate_key(key, grace=DAY, actor=SYSTEM, now=now)  # type: ignore[arg-type]
    return caught.value.code


def test_the_new_key_has_the_name_tenants_and_scopes_of_the_old_one() -> None:
    organisation = make_organisation()
    tenants = [make_tenant(organisation=organisation), make_tenant(organisation=organisation)]
    key, plain = make_key(*tenants, name="workers", scopes=["budgets"])
    successor, new = rotate_key(key, grace=DAY, actor=SYSTEM, now=NOW)
    assert new != plain
    assert (successor.name, successor.scopes, successor.predecessor) == ("workers", ["budgets"], key)
    assert set(successor.tenants.all()) == set(tenants)


def test_both_keys_work_until_the_old_ones_end() -> None:
    key, plain = make_key(make_tenant())
    _, new = rotate_key(key, grace=DAY, actor=SYSTEM, now=NOW)
    just_before = NOW + DAY - timedelta(seconds=1)
    assert keys.authenticate(f"Bearer {plain}", just_before)
    assert keys.authenticate(f"Bearer {new}", just_before)
    assert refusal(plain, NOW + DAY) == "key_expired"
    assert keys.authenticate(f"Bearer {new}", NOW + DAY)


def test_a_key_that_ends_sooner_anyway_is_not_prolonged() -> None:
    key, _ = make_key(make_tenant(), expires_at=NOW + timedelta(hours=2))
    rotate_key(key, grace=DAY, actor=SYSTEM, now=NOW)
    key.refresh_from_db()
    assert key.expires_at == NOW + timedelta(hours=2)


def test_a_key_that_was_rotated_is_not_rotated_again() -> None:
    key, _ = make_key(make_tenant())
    rotate_key(key, grace=DAY, actor=SYSTEM, now=NOW)
    assert refused(key) == "already_rotated"
    assert ApiKey.objects.count() == 2


def test_a_third_key_does_not_work_beside_the_two() -> None:
    key, _ = make_key(make_tenant())
    successor, _ = rotate_key(key, grace=DAY, actor=SYSTEM, now=NOW)
    assert refused(successor) == "rotation_open"
    assert rotate_key(successor, grace=DAY, actor=SYSTEM, now=NOW + DAY)


def test_a_new_key_that_was_revoked_makes_room_for_another() -> None:
    key, _ = make_key(make_tenant())
    lost, _ = rotate_key(key, grace=DAY, actor=SYSTEM, now=NOW)
    revoke_key(lost, actor=SYSTEM, now=NOW)
    assert rotate_key(key, grace=DAY, actor=SYSTEM, now=NOW)[0].predecessor == key


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_key_that_no_longer_works_is_not_rotated(how: str) -> None:
    key, _ = make_key(make_tenant(), expires_at=NOW + DAY)
    if how == "revoked":
        revoke_key(key, actor=SYSTEM, now=NOW)
    assert refused(key, NOW if how == "revoked" else NOW + DAY) == "not_live"


def test_the_trail_names_who_rotated_on_both_keys() -> None:
    key, _ = make_key(make_tenant())
    user = make_user("mara")
    successor, _ = rotate_key(key, grace=DAY, actor=user, now=NOW)
    rows = ApiKeyEvent.objects.filter(pgh_context__actor__id=user.pk)
    assert set(rows.values_list("pgh_label", "pgh_obj_id")) == {("insert", successor.pk), ("update", key.pk)}
