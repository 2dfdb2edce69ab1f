"""No key of any scope decides: what acts on checkpoints needs a session of a person."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from guardops.tenants.choices import Role, Scope
from guardops.tenants.models import Tenant
from runs.models import Checkpoint, Decision
from tests.factories import make_key, make_member
from tests.runs.checkpoints.pages.conftest import path_of

pytestmark = pytest.mark.django_db

ACTS = ("decide", "undo", "claim", "renew", "release", "hand-over", "note")


@pytest.mark.parametrize("scope", [scope.value for scope in Scope])
def test_key_is_refused_wherever_something_is_decided(
    tenant: Tenant, checkpoint: Checkpoint, scope: str
) -> None:
    _, key = make_key(tenant, scopes=[scope])
    form = {"action": "stop", "version": 1, "text": "x", "claim": f"acme:{checkpoint.checkpoint_id}"}
    paths = [path_of(checkpoint), *(path_of(checkpoint, act) for act in ACTS)]
    paths += [reverse("runs:review-act"), reverse("runs:review-bulk")]
    for client in (Client(), Client(enforce_csrf_checks=True)):
        for path in paths:
            with CaptureQueriesContext(
                connection,
            ) as asked:
                response = client.post(path, form, headers={"Authorization": f"Bearer {key}"})
            assert response.status_code == 403, path
            assert not [query for query in asked.captured_queries if "checkpoint" in query["sql"]]
    assert client.get(path_of(checkpoint), headers={"Authorization": f"Bearer {key}"}).status_code == 403
    checkpoint.refresh_from_db()
    assert (checkpoint.state, checkpoint.version) == ("open", 1)
    assert not Decision.objects.exists()


def test_who_is_nobody_is_sent_to_sign_in_and_back(client: Client, checkpoint: Checkpoint) -> None:
    path = f"{path_of(checkpoint)}?tenant=acme"
    response = client.get(path)
    assert response.status_code == 302
    assert response["Location"] == f"/login/?next={path.replace('?', '%3F').replace('=', '%3D')}"


def test_reviewer_needs_the_token_of_the_form(tenant: Tenant, checkpoint: Checkpoint) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_member(tenant, Role.REVIEWER))
    for act in ACTS:
        assert client.post(path_of(checkpoint, act), {"action": "stop", "version": 1}).status_code == 403
    assert not Decision.objects.exists()
