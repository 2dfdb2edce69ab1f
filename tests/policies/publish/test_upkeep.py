from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.apps import apps

from guardops.tenants.actors import SYSTEM
from policies.choices import StopScope
from policies.drafts import open_draft
from policies.models import BlockedSource, Epoch, PolicyVersion, SigningSecret, Stop
from policies.publish.policies import save_policy
from policies.publish.sources import Reach, Wanted, block_sources
from policies.publish.stops import issue_stop
from policies.publish.upkeep import OVERLAP, adopt_database, end_what_is_over, rotate_secret
from policies.pull.reading import read_newest
from tests.factories import make_tenant
from tests.policies.conftest import NOW, House, bundle_of, contradict, revisions_of

HOUR = timedelta(hours=1)


def test_what_is_over_is_ended_once_and_by_the_system(house: House) -> None:
    save_policy(house.place(), {"limits": {"max_steps": 5}}, seen=0, actor=house.admin, now=NOW)
    document = {"limits": {"max_steps": 90}}
    save_policy(house.place(), document, seen=1, actor=house.admin, now=NOW, until=NOW + HOUR)
    reach, wanted = Reach(house.organisation), [Wanted("a.example", expires_at=NOW + HOUR)]
    block_sources(reach, wanted, actor=house.admin, now=NOW)
    issue_stop(
        house.tenant, StopScope.RUN, "r", reason="x", actor=house.admin, now=NOW, expires_at=NOW + HOUR
    )
    later = NOW + HOUR
    assert end_what_is_over(later - timedelta(seconds=1)) == 0
    assert end_what_is_over(later) == 3
    assert end_what_is_over(later) == 0
    bundle = bundle_of(house.tenant)
    assert (bundle.blocked, bundle.stops) == ((), ())
    assert bundle.rules("research", later).policy.limits.max_steps == 5
    assert PolicyVersion.objects.latest("number").author is None
    assert BlockedSource.objects.get().removed_by is None
    assert Stop.objects.get().lifted_by is None
    last = apps.get_model("policies", "StopEvent").objects.latest("pgh_id")
    assert last.pgh_context["actor"]["kind"] == "system"


def test_first_version_that_ends_leaves_what_is_above(house: House) -> None:
    document = {"limits": {"max_steps": 90}}
    save_policy(house.place(), document, seen=0, actor=house.admin, now=NOW, until=NOW + HOUR)
    assert end_what_is_over(NOW + HOUR) == 1
    assert bundle_of(house.tenant).rules("research", NOW + HOUR).policy.limits.max_steps == 40


def test_edit_of_a_version_that_ends_brings_back_none_that_has_ended(house: House) -> None:
    for seen, (steps, until) in enumerate([(12, None), (80, NOW + HOUR), (90, NOW + HOUR)]):
        document = {"limits": {"max_steps": steps}}
        save_policy(house.place(), document, seen=seen, actor=house.admin, now=NOW, until=until)
    assert bundle_of(house.tenant).rules("research", NOW).policy.limits.max_steps == 90
    assert bundle_of(house.tenant).rules("research", NOW + HOUR).policy.limits.max_steps == 12
    assert open_draft(house.place(), NOW + HOUR).document == {"limits": {"max_steps": 12}}
    assert end_what_is_over(NOW + HOUR) == 1
    assert bundle_of(house.tenant).rules("research", NOW + HOUR).policy.limits.max_steps == 12


def test_version_that_holds_again_still_ends_at_its_time(house: House) -> None:
    for seen, (steps, until) in enumerate([(12, None), (80, NOW + 2 * HOUR), (90, NOW + HOUR)]):
        document = {"limits": {"max_steps": steps}}
        save_policy(house.place(), document, seen=seen, actor=house.admin, now=NOW, until=until)
    for _ in range(2):
        bundle = bundle_of(house.tenant)
        assert bundle.rules("research", NOW + HOUR).policy.limits.max_steps == 80
        assert bundle.rules("research", NOW + 2 * HOUR).policy.limits.max_steps == 12
        end_what_is_over(NOW + HOUR)


def test_tenant_whose_rules_contradict_each_other_holds_up_nothing_that_ends(house: House) -> None:
    ends = NOW + HOUR
    for tenant in (house.tenant, house.sibling):
        issue_stop(tenant, StopScope.RUN, "r", reason="x", actor=house.admin, now=NOW, expires_at=ends)
        wanted = [Wanted("a.example", expires_at=ends)]
        block_sources(Reach(house.organisation, tenant), wanted, actor=house.admin, now=NOW)
    contradict(house)
    assert end_what_is_over(ends) == 4
    for tenant in (house.tenant, house.sibling):
        bundle = bundle_of(tenant)
        assert (bundle.blocked, bundle.stops) == ((), ())


def test_block_that_cannot_be_taken_out_stays_for_the_next_time(
    house: House, full: Callable[[], None]
) -> None:
    for tenant in (house.tenant, house.sibling):
        wanted = [Wanted("a.example", expires_at=NOW + HOUR)]
        block_sources(Reach(house.organisation, tenant), wanted, actor=house.admin, now=NOW)
    block_sources(Reach(house.organisation, house.tenant), [Wanted("b.example")], actor=house.admin, now=NOW)
    full()
    assert end_what_is_over(NOW + HOUR) == 0
    assert BlockedSource.objects.filter(removed_at=None).count() == 3


def test_tenant_whose_list_is_full_is_stopped_all_the_same(house: House, full: Callable[[], None]) -> None:
    block_sources(Reach(house.organisation, house.tenant), [Wanted("a.example")], actor=SYSTEM, now=NOW)
    contradict(house)
    full()
    issue_stop(house.tenant, StopScope.TENANT, "", reason="x", actor=house.admin, now=NOW)
    bundle = bundle_of(house.tenant)
    assert [(stop.scope, bundle.blocked[0].name) for stop in bundle.stops] == [("tenant", "a.example")]


def test_new_tenant_whose_rules_contradict_each_other_gets_the_built_in_limits(house: House) -> None:
    for job_type, limits in (("research", {"window": 6}), ("", {"cycle_reps": 5})):
        save_policy(house.place(job_type, wide=True), {"limits": limits}, seen=0, actor=house.admin, now=NOW)
    late = make_tenant("late", organisation=house.organisation)
    assert read_newest([late.pk], NOW)[late.pk].revision == 1
    assert bundle_of(late).rules("research", NOW).policy.limits.window == 12


def test_of_rotated_secrets_two_are_live_the_older_one_for_a_week(house: House) -> None:
    for hours in range(3):
        rotate_secret(house.tenant, actor=house.admin, now=NOW + hours * HOUR)
    old, new = bundle_of(house.tenant).signing
    assert (old.not_after, new.not_after) == (NOW + 2 * HOUR + OVERLAP, None)
    assert len(new.secret) == 64


def test_secret_that_leaked_ends_at_once(house: House) -> None:
    rotate_secret(house.tenant, actor=house.admin, now=NOW)
    leaked = bundle_of(house.tenant).signing[0].kid
    rotate_secret(house.tenant, actor=house.admin, now=NOW + HOUR, overlap=timedelta(0))
    assert [key.kid != leaked for key in bundle_of(house.tenant).signing] == [True]


def test_secret_is_in_no_audit_row(house: House) -> None:
    rotate_secret(house.tenant, actor=house.admin, now=NOW)
    secret = SigningSecret.objects.get().secret
    events = apps.get_model("policies", "SigningSecretEvent").objects.values()
    assert events.count() == 1
    assert secret not in str(list(events))


def test_database_of_another_cluster_begins_an_epoch_with_new_revisions(house: House) -> None:
    save_policy(house.place(), {"mode": "off"}, seen=0, actor=SYSTEM, now=NOW)
    before = bundle_of(house.tenant)
    assert adopt_database(NOW) is None
    Epoch.objects.update(system_identifier=1)
    change = adopt_database(NOW)
    after = bundle_of(house.tenant)
    assert change is not None
    assert change.finished_at == NOW
    assert after.epoch != before.epoch
    assert after.content_hash == before.content_hash
    assert revisions_of(house.tenant) == [1, 2]


def test_restored_backup_begins_an_epoch_where_somebody_says_so(house: House) -> None:
    save_policy(house.place(), {"mode": "off"}, seen=0, actor=SYSTEM, now=NOW)
    assert adopt_database(NOW, restored=True) is not None
    assert revisions_of(house.tenant) == [1, 2]


def test_empty_installation_has_nothing_to_adopt(house: House) -> None:
    assert adopt_database(NOW) is None
