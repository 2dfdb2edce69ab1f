from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError

from policies.choices import BlockAction, SourceKind
from policies.models import BlockedSource
from policies.publish.sources import (
    Reach,
    Wanted,
    block_sources,
    remove_sources,
    restore_source,
    revert_sources,
)
from tests.policies.conftest import NOW, House, bundle_of, revisions_of

EVERYBODY = Reach()


def block(house: House, *names: str, reach: Reach | None = None, **fields: object) -> list[str]:
    """Block domains and return what became of each."""
    wanted = [Wanted(name, **fields) for name in names]  # type: ignore[arg-type]
    outcomes, _ = block_sources(
        reach or Reach(house.organisation, house.tenant), wanted, actor=house.admin, now=NOW
    )
    return [
        outcome.error.code if outcome.error else "already" if outcome.already else "blocked"
        for outcome in outcomes
    ]


def blocked(house: House) -> dict[str, str]:
    return {source.name: source.action for source in bundle_of(house.tenant).blocked}


def test_blocked_domain_is_what_guards_are_told(house: House) -> None:
    assert block(house, "https://www.Mirror.example/page?p=2", reason="tarpit") == ["blocked"]
    assert blocked(house) == {"mirror.example": "block"}
    assert bundle_of(house.tenant).blocked[0].reason == "tarpit"


def test_international_name_is_kept_as_its_a_label(house: House) -> None:
    assert block(house, "bücher.example") == ["blocked"]
    assert blocked(house) == {"xn--bcher-kva.example": "block"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("co.uk", "public_suffix"),
        ("github.io", "public_suffix"),
        ("10.0.0.1", "ip_address"),
        ("0x7f.1", "ip_address"),
        ("[2001:db8::1]", "ip_address"),
        ("localhost", "no_domain"),
        ("not a domain", "no_domain"),
        ("", "no_domain"),
        ("\0", "no_domain"),
    ],
)
def test_name_that_nobody_may_block_is_refused(house: House, name: str, code: str) -> None:
    assert block(house, name) == [code]
    assert revisions_of(house.tenant) == []


def test_own_and_allowed_domains_are_refused(house: House) -> None:
    house.organisation.allowed_domains = ["acme.example"]
    house.organisation.save()
    assert block(house, "shop.acme.example", "other.example") == ["own_domain", "blocked"]


def test_host_below_an_allowed_one_and_the_domain_above_it_are_refused(house: House) -> None:
    house.organisation.allowed_domains = ["docs.vendor.example"]
    house.organisation.save()
    assert block(house, "vendor.example", "docs.vendor.example") == ["own_domain", "own_domain"]
    assert block(house, "v2.docs.vendor.example", "shop.vendor.example", exact=True) == [
        "own_domain",
        "blocked",
    ]


def test_domain_that_any_organisation_allows_is_not_blocked_for_everybody(house: House) -> None:
    house.organisation.allowed_domains = ["acme.example"]
    house.organisation.save()
    assert block(house, "acme.example", "other.example", reach=EVERYBODY) == ["own_domain", "blocked"]


def test_reverted_edit_leaves_the_list_as_it_was(house: House) -> None:
    block(house, "old.example")
    reach, later = Reach(house.organisation, house.tenant), NOW + timedelta(minutes=1)
    wanted = [Wanted("old.example", reason="stricter"), Wanted("new.example")]
    _, change = block_sources(reach, wanted, actor=house.admin, now=later)
    assert change is not None
    assert revert_sources(change, actor=house.admin, now=later + timedelta(minutes=1)) is not None
    assert [(source.name, source.reason) for source in bundle_of(house.tenant).blocked] == [
        ("old.example", "")
    ]
    assert revert_sources(change, actor=house.admin, now=later + timedelta(minutes=2)) is None


def test_exact_host_is_blocked_without_its_siblings(house: House) -> None:
    block(house, "mirror.acme.example", exact=True)
    source = bundle_of(house.tenant).blocked[0]
    assert (source.name, source.exact) == ("mirror.acme.example", True)


def test_line_that_is_wrong_keeps_no_other_from_being_blocked(house: House) -> None:
    assert block(house, "a.example", "co.uk", "b.example") == ["blocked", "public_suffix", "blocked"]
    assert set(blocked(house)) == {"a.example", "b.example"}
    assert revisions_of(house.tenant) == [1]


def test_same_block_again_changes_nothing(house: House) -> None:
    block(house, "a.example")
    assert block(house, "a.example") == ["already"]
    assert revisions_of(house.tenant) == [1]


def test_stricter_action_takes_the_place_of_a_limit(house: House) -> None:
    block(house, "a.example", action=BlockAction.LIMIT, most=2)
    assert bundle_of(house.tenant).blocked[0].limit == 2
    assert block(house, "a.example") == ["blocked"]
    assert blocked(house) == {"a.example": "block"}
    assert BlockedSource.objects.filter(removed_at=None).count() == 1


def test_of_several_levels_the_strictest_counts(house: House) -> None:
    block(house, "a.example", reach=Reach(house.organisation))
    block(house, "a.example", action=BlockAction.LIMIT, most=5)
    assert blocked(house) == {"a.example": "block"}


def test_block_of_everybody_reaches_every_tenant(house: House) -> None:
    assert block(house, "a.example", reach=EVERYBODY) == ["blocked"]
    assert [source.name for source in bundle_of(house.foreign).blocked] == ["a.example"]


def test_tool_is_blocked_by_its_name(house: House) -> None:
    assert block(house, "Send_Money", kind=SourceKind.TOOL) == ["blocked"]
    assert bundle_of(house.tenant).blocked[0].kind == "tool"


def test_removed_source_is_let_go_and_can_be_restored(house: House) -> None:
    block(house, "a.example", reason="tarpit")
    source = BlockedSource.objects.get()
    reach = Reach(house.organisation, house.tenant)
    removed, _ = remove_sources(reach, [source.pk], actor=house.admin, now=NOW)
    assert [row.name for row in removed] == ["a.example"]
    assert blocked(house) == {}
    restore_source(removed[0], actor=house.admin, now=NOW)
    assert blocked(house) == {"a.example": "block"}


def test_source_of_another_tenant_is_not_removed(house: House) -> None:
    block(house, "a.example")
    source = BlockedSource.objects.get()
    foreign = Reach(house.foreign.organisation, house.foreign)
    assert remove_sources(foreign, [source.pk], actor=house.admin, now=NOW) == ([], None)
    assert blocked(house) == {"a.example": "block"}


def test_expired_block_is_told_to_nobody_and_makes_room(house: House) -> None:
    block(house, "a.example", expires_at=NOW + timedelta(hours=1))
    source = bundle_of(house.tenant).blocked[0]
    assert source.holds(NOW)
    assert not source.holds(NOW + timedelta(hours=1))
    outcomes, _ = block_sources(
        Reach(house.organisation, house.tenant),
        [Wanted("a.example")],
        actor=house.admin,
        now=NOW + timedelta(hours=2),
    )
    assert outcomes[0].source is not None


@pytest.mark.parametrize(
    "evidence", ["javascript:alert(1)", "//attacker.example", "/\\attacker.example", "/\u202e"]
)
def test_evidence_that_is_no_page_of_ours_is_refused_by_the_database(house: House, evidence: str) -> None:
    with pytest.raises(IntegrityError, match="blocked_source_evidence_ours"):
        block(house, "a.example", evidence=evidence)
