"""Which checkpoint an address names, and whether its reader may act on it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404
from django.urls import reverse

from guardops.tenants.access import Visible, require_role, visible
from guardops.tenants.choices import Role
from runs.checkpoints.moving import fresh
from runs.models import Checkpoint

if TYPE_CHECKING:
    from runs.reports.pages import PageRequest


def find_checkpoints(seen: Visible, checkpoint_id: UUID, slug: str) -> list[Checkpoint]:
    """Return the checkpoint of that id in each tenant ``seen``, with its people and its decision.

    A ``slug`` asks for one tenant's. Raises Http404 where there is none, or none that may be seen.
    """
    tenants = [seen.by_slug(slug).pk] if slug else seen.ids
    named = Checkpoint.objects.for_tenants(tenants).filter(checkpoint_id=checkpoint_id)
    found = [fresh(pk) for pk in named.order_by("tenant_id").values_list("pk", flat=True)] if tenants else []
    if not found:
        raise Http404("No such checkpoint.")
    return found


def find_to_act(request: PageRequest, checkpoint_id: UUID) -> Checkpoint:
    """Return the checkpoint that a reviewer acts on; a stranger gets 404, a role too low 403.

    Where several tenants have one of that id, the address must say whose.
    """
    found = find_checkpoints(visible(request.user), checkpoint_id, request.GET.get("tenant", ""))
    if len(found) != 1:
        raise Http404("More than one checkpoint has this id.")
    require_role(request.user, found[0].tenant, Role.REVIEWER)
    return found[0]


def address_of(checkpoint: Checkpoint, view: str = "runs:checkpoint", **params: str) -> str:
    """Return the address of a checkpoint's page, or of what acts on it."""
    query = urlencode({"tenant": checkpoint.tenant.slug, **params})
    return f"{reverse(view, args=[checkpoint.checkpoint_id])}?{query}"
