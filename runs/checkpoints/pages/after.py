"""Where people go on: back to the list they came from, at what waits for them next."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.urls import reverse
from django.utils.encoding import iri_to_uri
from django.utils.http import url_has_allowed_host_and_scheme

from runs.checkpoints.queue import next_waiting
from runs.models import Checkpoint

if TYPE_CHECKING:
    from guardops.tenants.models import User


def back_to(request: HttpRequest) -> str:
    """Return the list that somebody came from, with its filters; empty where no list of ours is named.

    It is written as an address is: a link of somebody else's may hold characters that show as others.
    """
    asked = iri_to_uri(request.POST.get("next") or request.GET.get("next", ""))
    ours = url_has_allowed_host_and_scheme(asked, allowed_hosts=None)
    return asked if ours and asked.startswith(reverse("runs:review-queue")) else ""


def after_deciding(request: HttpRequest, reader: User, decided: Checkpoint, now: datetime) -> str:
    """Return the address of the list, at the row of what waits for ``reader`` next."""
    queue = (back_to(request) or reverse("runs:review-queue")).partition("#")[0]
    following = next_waiting(reader, now, after=decided)
    if following is None:
        return queue
    return f"{queue}#row-{following.tenant.slug}-{following.checkpoint_id.hex}"
