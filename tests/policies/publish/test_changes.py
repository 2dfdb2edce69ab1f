from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from guardops.tenants.models import Organisation, Tenant
from policies.models import BundleRevision, Change
from policies.publish import changes
from policies.publish.changes import publish_batch, publish_open_changes
from policies.publish.policies import Place, Saved, save_policy
from tests.factories import make_organisation, make_tenant
from tests.policies.conftest import NOW, House


@pytest.fixture
def many(db: None) -> Organisation:
    organisation = make_organisation("many")
    for number in range(250):
        make_tenant(f"many-{number}", organisation=organisation)
    return organisation


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request that edits has no time for any batch."""
    monkeypatch.setattr(changes, "IN_REQUEST_S", 0.0)


def edit(organisation: Organisation, house: House, most: int = 9, seen: int = 0) -> Saved:
    saved = save_policy(
        Place(organisation, None, ""), {"limits": {"max_steps": most}}, seen=seen, actor=house.admin, now=NOW
    )
    assert saved is not None
    return saved


def test_wide_edit_goes_through_all_tenants_in_batches(
    house: House, many: Organisation, no_time: None
) -> None:
    change = edit(many, house).change
    counts = []
    while publish_batch(change.pk, NOW):
        change.refresh_from_db()
        counts.append((change.done, change.total))
    assert counts == [(100, 250), (200, 250), (250, 250)]
    assert change.finished_at == NOW
    assert BundleRevision.objects.filter(change=change).count() == 250


def test_batch_takes_a_constant_number_of_statements(
    house: House, many: Organisation, no_time: None, django_assert_max_num_queries: object
) -> None:
    change = edit(many, house).change
    with django_assert_max_num_queries(40):  # type: ignore[operator]
        publish_batch(change.pk, NOW)


def test_second_edit_meanwhile_is_told_with_the_first(
    house: House, many: Organisation, no_time: None
) -> None:
    first = edit(many, house).change
    publish_batch(first.pk, NOW)
    second = edit(many, house, most=8, seen=1).change
    publish_open_changes(NOW)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.done, first.published) == (250, 250)
    assert (second.done, second.published) == (250, 100)


def test_tenant_made_meanwhile_is_reached(house: House, many: Organisation, no_time: None) -> None:
    change = edit(many, house).change
    publish_batch(change.pk, NOW)
    late = make_tenant("late", organisation=many)
    publish_open_changes(NOW)
    change.refresh_from_db()
    assert (change.done, change.total) == (251, 251)
    assert Tenant.objects.get(pk=late.pk).bundle_revision == 1


@pytest.mark.django_db(transaction=True)
def test_change_that_somebody_is_at_is_left_to_them(house: House, no_time: None) -> None:
    change = edit(house.organisation, house).change

    def publish() -> bool:
        try:
            return publish_batch(change.pk, NOW)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as others:
        with transaction.atomic():
            Change.objects.select_for_update().get(pk=change.pk)
            assert others.submit(publish).result(timeout=10) is False
        assert others.submit(publish).result(timeout=10) is True
