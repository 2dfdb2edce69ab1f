"""Pulling bundles in process; that every edit reaches every waiting guard is shown in faults."""

from __future__ import annotations

import gzip
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from litestar.testing import TestClient

from guardops.guard.bundle import read_bundle
from guardops.tenants import keys
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Scope
from guardops.tenants.models import Organisation, Tenant
from policies.models import BundleRevision, GuardInstance
from policies.publish.policies import Place, save_policy
from tests.factories import make_tenant
from tests.gate.conftest import bearer

Gate = TestClient[Any]
PATH = "/api/v1/bundle"


@pytest.fixture
def pull_key(tenant: Tenant) -> dict[str, str]:
    return bearer(tenant, scopes=(Scope.BUNDLE_READ,))


def edit(tenant: Tenant, most: int, seen: int = 0) -> None:
    save_policy(
        Place(tenant.organisation, tenant, "research"),
        {"limits": {"max_steps": most}},
        seen=seen,
        actor=SYSTEM,
        now=datetime.now(UTC),
    )


def later(gate: Gate, work: Callable[[], None]) -> threading.Thread:
    """Do something in another thread once the request that is about to be sent waits."""
    from django.db import connection

    def run() -> None:
        try:
            wait_for(lambda: gate.app.state.services.hub.waits > 0)
            work()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_pull_answers_the_whole_bundle(gate: Gate, tenant: Tenant, pull_key: dict[str, str]) -> None:
    edit(tenant, 12)
    response = gate.get(PATH, headers=pull_key)
    bundle = read_bundle(response.content, tenant=tenant.slug)
    assert response.status_code == 200
    assert bundle.rules("research", datetime.now(UTC)).policy.limits.max_steps == 12
    assert response.headers["etag"] == bundle.etag
    assert response.headers["guardops-revision"] == "1"
    assert response.headers["guardops-long-poll"] == "1"
    assert response.headers["guardops-poll-after"] == "10"
    assert response.headers["cache-control"] == "private, no-store"
    assert response.headers["vary"] == "Authorization"
    assert response.headers["content-encoding"] == "gzip"


def test_pull_without_gzip_answers_plain_json(gate: Gate, tenant: Tenant, pull_key: dict[str, str]) -> None:
    response = gate.get(PATH, headers=pull_key | {"Accept-Encoding": "identity"})
    assert "content-encoding" not in response.headers
    assert read_bundle(response.content, tenant=tenant.slug).revision == 1


def test_tenant_without_a_bundle_gets_its_first(gate: Gate, tenant: Tenant, pull_key: dict[str, str]) -> None:
    bundle = read_bundle(gate.get(PATH, headers=pull_key).content, tenant=tenant.slug)
    assert (bundle.revision, len(bundle.signing), bundle.job_types) == (1, 1, {})
    assert BundleRevision.objects.filter(tenant=tenant).count() == 1


def test_guard_that_has_the_bundle_is_told_so(gate: Gate, pull_key: dict[str, str]) -> None:
    etag = gate.get(PATH, headers=pull_key).headers["etag"]
    response = gate.get(PATH, headers=pull_key | {"If-None-Match": etag})
    assert (response.status_code, response.content) == (304, b"")
    assert response.headers["etag"] == etag
    assert response.headers["guardops-revision"] == "1"
    assert response.headers["cache-control"] == "private, no-store"


def test_bundle_that_a_guard_refused_is_not_sent_again(
    gate: Gate, tenant: Tenant, pull_key: dict[str, str]
) -> None:
    old = gate.get(PATH, headers=pull_key).headers["etag"]
    edit(tenant, 12)
    newest = BundleRevision.objects.filter(tenant=tenant).latest("revision")
    hash16 = newest.content_hash[7:23]
    headers = pull_key | {"If-None-Match": old}
    wait_for(lambda: gate.get(PATH, headers=headers).status_code == 200)
    refused = {"GuardOps-Reject": f"{newest.revision}:{hash16};wrong_hash"}
    assert gate.get(PATH, headers=headers | refused).status_code == 304
    other = {"GuardOps-Reject": f"{newest.revision}:{'0' * 16};wrong_hash"}
    assert gate.get(PATH, headers=headers | other).status_code == 200


def wait_for(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_wait_ends_with_the_edit(gate: Gate, tenant: Tenant, pull_key: dict[str, str]) -> None:
    etag = gate.get(PATH, headers=pull_key).headers["etag"]
    other = later(gate, lambda: edit(tenant, 12))
    response = gate.get(f"{PATH}?wait=30", headers=pull_key | {"If-None-Match": etag})
    other.join()
    assert response.status_code == 200
    assert read_bundle(response.content, tenant=tenant.slug).revision == 2


def test_wait_without_news_ends_with_its_time(gate: Gate, pull_key: dict[str, str]) -> None:
    etag = gate.get(PATH, headers=pull_key).headers["etag"]
    response = gate.get(f"{PATH}?wait=0.2", headers=pull_key | {"If-None-Match": etag})
    assert response.status_code == 304


def test_edit_of_another_tenant_ends_no_wait(gate: Gate, tenant: Tenant, pull_key: dict[str, str]) -> None:
    etag = gate.get(PATH, headers=pull_key).headers["etag"]
    other = later(gate, lambda: edit(make_tenant(), 12))
    response = gate.get(f"{PATH}?wait=0.5", headers=pull_key | {"If-None-Match": etag})
    other.join()
    assert response.status_code == 304


def test_gate_that_is_full_answers_at_once(gate: Gate, pull_key: dict[str, str]) -> None:
    etag = gate.get(PATH, headers=pull_key).headers["etag"]
    gate.app.state.services.hub._most_waits = 0
    response = gate.get(f"{PATH}?wait=30", headers=pull_key | {"If-None-Match": etag})
    assert response.status_code == 304
    assert response.headers["guardops-long-poll"] == "0"
    assert response.headers["guardops-poll-after"] == "15"


def test_wait_that_makes_no_sense_is_refused(gate: Gate, pull_key: dict[str, str]) -> None:
    for wait in ("-1", "61", "nan", "inf", "soon", "1e5000", "%00"):
        response = gate.get(f"{PATH}?wait={wait}", headers=pull_key)
        assert (response.status_code, response.json()["code"]) == (400, "bad_request"), wait


def test_pull_without_a_key_is_refused(gate: Gate) -> None:
    assert gate.get(PATH).json()["code"] == "unauthenticated"


def test_key_without_the_scope_is_refused(gate: Gate, tenant: Tenant) -> None:
    response = gate.get(PATH, headers=bearer(tenant, scopes=(Scope.EVENTS_WRITE,)))
    assert (response.status_code, response.json()["code"]) == (403, "missing_scope")


def test_key_of_another_tenant_gets_nothing_of_this_one(gate: Gate, tenant: Tenant) -> None:
    key = bearer(make_tenant(), scopes=(Scope.BUNDLE_READ,))
    response = gate.get(PATH, headers=key | {"GuardOps-Tenant": tenant.slug})
    assert (response.status_code, response.json()["code"]) == (403, "unknown_tenant")


def test_other_methods_are_refused(gate: Gate, pull_key: dict[str, str]) -> None:
    response = gate.post(PATH, headers=pull_key)
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
    assert gate.get("/api/v1/bundles", headers=pull_key).status_code == 405


def test_head_answers_the_headers_alone(gate: Gate, pull_key: dict[str, str]) -> None:
    response = gate.head(PATH, headers=pull_key)
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["etag"]


def test_what_a_guard_says_is_written_down(gate: Gate, tenant: Tenant, pull_key: dict[str, str]) -> None:
    guard = str(uuid.uuid4())
    headers = {
        "GuardOps-Guard": guard,
        "GuardOps-Applied": "1:0123456789abcdef;src=file;age=12",
        "GuardOps-Reject": "2:0123456789abcdef;wrong_hash",
        "User-Agent": "guardops-guard/0.1.0 python",
    }
    gate.get(PATH, headers=pull_key | headers)
    gate.get(PATH, headers=pull_key | {"GuardOps-Guard": "no uuid"})
    gate.__exit__(None, None, None)
    seen = GuardInstance.objects.get()
    assert (seen.tenant_id, str(seen.instance), seen.version) == (tenant.pk, guard, "0.1.0")
    assert (seen.applied_revision, seen.source, seen.age_s) == (1, "file", 12)
    assert (seen.rejected_revision, seen.reject_code) == (2, "wrong_hash")
    gate.__enter__()


class TestSeveralTenants:
    path = "/api/v1/bundles"

    @pytest.fixture
    def pair(self, tenant: Tenant) -> tuple[Tenant, Tenant]:
        return tenant, make_tenant(organisation=Organisation.objects.get(pk=tenant.organisation_id))

    @pytest.fixture
    def pair_key(self, pair: tuple[Tenant, Tenant]) -> dict[str, str]:
        return bearer(*pair, scopes=(Scope.BUNDLE_READ,))

    def ask(self, gate: Gate, key: dict[str, str], wait: float = 0, **etags: str) -> Any:
        asked = {slug: {"etag": etag} for slug, etag in etags.items()}
        return gate.post(f"{self.path}?wait={wait}", json={"tenants": asked}, headers=key)

    def test_changed_bundles_are_answered(
        self, gate: Gate, pair: tuple[Tenant, Tenant], pair_key: dict[str, str]
    ) -> None:
        first, second = pair
        reply = self.ask(gate, pair_key, **{first.slug: "", second.slug: ""}).json()
        assert set(reply["bundles"]) == {first.slug, second.slug}
        assert reply["revisions"] == {first.slug: 1, second.slug: 1}
        assert reply["removed"] == []

    def test_bundle_inside_the_answer_proves_itself(
        self, gate: Gate, pair: tuple[Tenant, Tenant], pair_key: dict[str, str]
    ) -> None:
        import msgspec

        body = self.ask(gate, pair_key, **{pair[0].slug: ""}).content
        bundles = msgspec.json.decode(body, type=dict[str, msgspec.Raw])["bundles"]
        whole = msgspec.json.decode(bundles, type=dict[str, msgspec.Raw])[pair[0].slug]
        assert read_bundle(bytes(whole), tenant=pair[0].slug).revision == 1

    def test_wait_ends_with_the_edit_of_any(
        self, gate: Gate, pair: tuple[Tenant, Tenant], pair_key: dict[str, str]
    ) -> None:
        first, second = pair
        reply = self.ask(gate, pair_key, **{first.slug: "", second.slug: ""}).json()
        etags = {slug: etag_of(bundle) for slug, bundle in reply["bundles"].items()}
        other = later(gate, lambda: edit(second, 12))
        reply = self.ask(gate, pair_key, wait=30, **etags).json()
        other.join()
        assert list(reply["bundles"]) == [second.slug]
        assert reply["revisions"] == {first.slug: 1, second.slug: 2}

    def test_tenant_that_the_key_does_not_cover_is_removed(
        self, gate: Gate, pair: tuple[Tenant, Tenant], pair_key: dict[str, str]
    ) -> None:
        foreign = make_tenant()
        reply = self.ask(
            gate, pair_key, wait=30, **{pair[0].slug: "", foreign.slug: "", "made-up": ""}
        ).json()
        assert reply["removed"] == sorted([foreign.slug, "made-up"])
        assert set(reply["bundles"]) == {pair[0].slug}

    def test_nothing_new_is_told_without_a_body(
        self, gate: Gate, pair: tuple[Tenant, Tenant], pair_key: dict[str, str]
    ) -> None:
        reply = self.ask(gate, pair_key, **{pair[0].slug: ""}).json()
        etag = etag_of(reply["bundles"][pair[0].slug])
        response = self.ask(gate, pair_key, **{pair[0].slug: etag})
        assert (response.status_code, response.content) == (304, b"")

    def test_body_that_makes_no_sense_is_refused(self, gate: Gate, pair_key: dict[str, str]) -> None:
        for body, code in (
            (b"", "not_json"),
            (b"{", "not_json"),
            (b"[" * 100_000, "bad_request"),
            (b"[]", "bad_request"),
            (b'{"tenants": 3}', "bad_request"),
            (b'{"tenants": {"a": {"etag": 3}}}', "bad_request"),
            (gzip.compress(b'{"tenants": {}}')[:10], "not_json"),
        ):
            response = gate.post(self.path, content=body, headers=pair_key)
            assert (response.status_code, response.json()["code"]) == (400, code), body


def etag_of(bundle: dict[str, Any]) -> str:
    return f'"{bundle["epoch"]}.{bundle["revision"]}.{bundle["content_hash"][7:23]}"'


@pytest.fixture(autouse=True)
def _fresh_keys() -> None:
    keys.forget()
