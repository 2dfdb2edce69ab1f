from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from guardops.guard.checkpoints import PendingCall
from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import Tenant, User
from policies.publish.policies import Place, save_policy
from runs.models import Checkpoint

PAYMENT = PendingCall(
    tool="send_money", args='{"amount":"120.00"}', args_hash="ff" * 8, side_effect="side_effect", step=12
)


@pytest.fixture
def desk(ann: User, client: Client) -> Client:
    """A browser in which a reviewer is signed in."""
    client.force_login(ann)
    return client


@pytest.fixture
def ceiling(tenant: Tenant, now: datetime) -> None:
    """Let reviewers add up to 20 steps, 10 minutes and $2."""
    most = {"steps": 20, "seconds": 600, "cost": "2.00"}
    save_policy(
        Place(tenant.organisation, tenant, "research"),
        {"review": {"resume_max": most}},
        seen=0,
        actor=SYSTEM,
        now=now,
    )


def path_of(checkpoint: Checkpoint, act: str = "") -> str:
    return f"/review/{checkpoint.checkpoint_id}/{f'{act}/' if act else ''}"


def send(client: Client, checkpoint: Checkpoint, action: str, **fields: Any) -> HttpResponse:
    """Decide as a form of the page does."""
    form = {"action": action, "version": checkpoint.version, **fields}
    return client.post(path_of(checkpoint, "decide"), form)


def filled(page: str, action: str) -> Mapping[str, Any]:
    """Return what a browser sends of the form of an action that nobody has changed."""
    [form] = re.findall(rf'<form(?:(?!</form>).)*value="{action}".*?</form>', page, re.DOTALL)
    sent: dict[str, Any] = {}
    for tag in re.findall(r"<input [^>]*>", form):
        name, value = re.search(r'name="([^"]*)"', tag), re.search(r'value="([^"]*)"', tag)
        chosen = ('type="checkbox"' not in tag and 'type="radio"' not in tag) or " checked" in tag
        if name and chosen and name[1] != "csrfmiddlewaretoken":
            sent.setdefault(name[1], []).append(value[1] if value else "")
    for name, text in re.findall(r'<textarea name="([^"]*)"[^>]*>\r?\n?(.*?)</textarea>', form, re.DOTALL):
        sent[name] = [text]
    return sent
