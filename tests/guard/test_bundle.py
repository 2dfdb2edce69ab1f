from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from guardops.guard.bundle import (
    BundleError,
    OnStale,
    StopOrder,
    StopScope,
    canonical,
    content_hash,
    merge,
    read_bundle,
)
from guardops.guard.events import Mode
from guardops.guard.policy import MICRO

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)


def make_document(**overrides: Any) -> dict[str, Any]:
    document = {
        "schema": 1,
        "tenant": "acme",
        "epoch": "b7c1",
        "revision": 42,
        "issued_at": NOW.isoformat(),
        "max_stale_s": 86_400,
        "defaults": {"mode": "enforce", "limits": {"max_steps": 30}},
        "job_types": {"research": {"version": 7, "mode": "shadow", "limits": {"max_turns": 9}}},
        "blocked": [{"kind": "domain", "name": "mirror.example", "action": "block"}],
        "signing": [{"kid": "k1", "secret": "s", "not_after": None}],
        "stops": [],
    } | overrides
    return {"content_hash": content_hash(document)} | document


def read(**overrides: Any) -> Any:
    return read_bundle(msgspec.json.encode(make_document(**overrides)), tenant="acme")


def code_of(body: bytes) -> str:
    with pytest.raises(BundleError) as caught:
        read_bundle(body, tenant="acme")
    return caught.value.code


def test_job_type_is_laid_over_the_defaults() -> None:
    rules = read().rules("research", NOW)
    limits = rules.policy.limits
    assert (rules.version, rules.policy.mode) == (7, Mode.SHADOW)
    assert (limits.max_steps, limits.max_turns, limits.max_seconds) == (30, 9, 900)


def test_job_type_without_a_document_has_the_defaults() -> None:
    rules = read().rules("unheard-of", NOW)
    assert (rules.version, rules.policy.limits.max_steps, rules.policy.mode) == (0, 30, Mode.ENFORCE)


def test_blocked_source_counts_until_it_expires() -> None:
    blocked = [{"kind": "domain", "name": "a.example", "expires_at": (NOW + timedelta(hours=1)).isoformat()}]
    [block] = read(blocked=blocked).rules("x", NOW).policy.blocked
    assert block.holds(NOW)
    assert not block.holds(NOW + timedelta(hours=1))


def test_etag_names_epoch_revision_and_content() -> None:
    bundle = read()
    assert bundle.etag == f'"b7c1.42.{bundle.content_hash[7:23]}"'


def test_hash_is_of_the_content_alone() -> None:
    other = make_document(revision=43, epoch="x", issued_at="2026-01-01T00:00:00Z")
    assert other["content_hash"] == make_document()["content_hash"]
    assert make_document(max_stale_s=1)["content_hash"] != other["content_hash"]


def test_canonical_form_is_sorted_and_without_spaces() -> None:
    assert (
        canonical({"b": [1, {"z": None, "ä": "ü"}], "a": "x"})
        == '{"a":"x","b":[1,{"z":null,"ä":"ü"}]}'.encode()
    )


def test_hash_does_not_depend_on_the_order_of_keys() -> None:
    document = make_document()
    turned = dict(reversed(document.items()))
    assert content_hash(turned) == document["content_hash"]


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        ({"schema": 2}, "unknown_schema"),
        ({"tenant": "globex"}, "wrong_tenant"),
        ({"defaults": {"limits": {"max_steps": 100_000}}}, "invalid_policy"),
        ({"defaults": {"limits": {"max_steps": None}}}, "invalid_policy"),
        ({"defaults": {"limits": []}}, "invalid_policy"),
        ({"defaults": {"tools": 3}}, "invalid_policy"),
        ({"defaults": {"unheard_of": 3}}, "invalid_policy"),
        ({"job_types": {"x": {"until": "soon", "then": {}}}}, "invalid_policy"),
        ({"job_types": {"x": {"until": "2026-01-01T00:00:00+00:00"}}}, "invalid_policy"),
        ({"job_types": {"x": {"until": "2026-01-01T00:00:00+00:00", "then": 3}}}, "invalid_policy"),
        ({"defaults": {"tools": {}}, "job_types": {"x": {"tools": []}}}, "invalid_policy"),
        ({"stops": [{"id": "1", "scope": "tenant", "expires_at": "2026-01-01T00:00:00"}]}, "malformed"),
        ({"blocked": [{"kind": "tool", "name": "x", "expires_at": "2026-01-01T00:00:00"}]}, "malformed"),
        ({"issued_at": "2026-01-01T00:00:00"}, "malformed"),
        ({"job_types": []}, "malformed"),
        ({"blocked": [{"kind": "domain"}]}, "malformed"),
        ({"revision": "x"}, "malformed"),
    ],
)
def test_bundle_that_no_guard_may_run_is_refused(overrides: dict[str, Any], code: str) -> None:
    assert code_of(msgspec.json.encode(make_document(**overrides))) == code


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b"\xff", b'{"schema":1}', b"[" * 100_000])
def test_garbage_is_refused(body: bytes) -> None:
    assert code_of(body) == "malformed"


def test_changed_content_is_refused() -> None:
    document = make_document()
    document["defaults"]["limits"]["max_steps"] = 31
    assert code_of(msgspec.json.encode(document)) == "wrong_hash"


def test_bundle_of_more_than_a_mebibyte_is_refused() -> None:
    assert code_of(b" " * (1024 * 1024 + 1)) == "too_large"


def test_document_with_an_end_gives_way_to_the_next_and_that_one_too() -> None:
    first, second = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
    job = {
        "version": 4,
        "limits": {"max_steps": 90},
        "until": first.isoformat(),
        "then": {"limits": {"max_steps": 60}, "until": second.isoformat(), "then": {}},
    }
    bundle = read(job_types={"research": job})
    found = [bundle.rules("research", moment) for moment in (NOW, first, second)]
    assert [rules.policy.limits.max_steps for rules in found] == [90, 60, 30]
    assert {rules.version for rules in found} == {4}


def test_review_and_staleness_are_read() -> None:
    document = {
        "on_stale": "refuse",
        "review": {"sla_s": 600, "on_timeout": "force_answer", "resume_max": {"steps": 20, "cost": "2.00"}},
    }
    rules = read(defaults=document).rules("x", NOW)
    assert rules.on_stale is OnStale.REFUSE
    assert (rules.review.sla_s, rules.review.on_timeout) == (600, "force_answer")
    assert rules.review.resume_max == {"steps": 20, "cost": 2 * MICRO}


def test_merge_leaves_what_it_is_given_alone() -> None:
    above = {"limits": {"max_steps": 1}, "tools": {"a": {"external": True}}}
    merged = merge(above, {"limits": {"max_turns": 2}, "tools": {"a": {"approval": True}, "b": {}}})
    assert merged == {
        "limits": {"max_steps": 1, "max_turns": 2},
        "tools": {"a": {"external": True, "approval": True}, "b": {}},
    }
    assert above == {"limits": {"max_steps": 1}, "tools": {"a": {"external": True}}}


@pytest.mark.parametrize(
    ("scope", "name", "ends"),
    [
        (StopScope.TENANT, "", True),
        (StopScope.JOB_TYPE, "research", True),
        (StopScope.JOB_TYPE, "support", False),
        (StopScope.TASK, "t-1", True),
        (StopScope.RUN, "r-1", True),
        (StopScope.RUN, "t-1", False),
    ],
)
def test_order_ends_what_it_names(scope: StopScope, name: str, ends: bool) -> None:
    order = StopOrder(id="1", scope=scope, name=name)
    assert order.ends(job_type="research", root_task_id="t-1", run_id="r-1") is ends


def test_block_that_makes_no_sense_is_no_policy() -> None:
    blocked = [{"kind": "domain", "name": "a.example", "action": "pass"}]
    assert code_of(msgspec.json.encode(make_document(blocked=blocked))) == "invalid_policy"


def test_version_that_is_no_number_is_no_policy() -> None:
    documents = {"research": {"version": "seven"}}
    assert code_of(msgspec.json.encode(make_document(job_types=documents))) == "invalid_policy"
