"""Channels and what was delivered over one, as files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.http import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_GET

from guardops.export import Cell, file_name, file_response
from guardops.tenants.pages.requests import AuthenticatedRequest
from runs.notify import access

if TYPE_CHECKING:
    from runs.models import Notification
    from runs.notify.querysets import ChannelQuerySet

CHANNELS = [
    *("name", "kind", "tenant", "organisation", "destination", "incidents", "severity", "endings"),
    *("decisions", "group_s", "repeat_h", "enabled", "created_at"),
]
DELIVERIES = [
    *("created_at", "kind", "subject", "transition", "version", "state", "attempts", "due_at", "ended_at"),
    *("message", "said", "outcome"),
]


@require_GET
def channels_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    name = file_name("channels", timezone.now())
    return file_response(form, name, CHANNELS, _channels(access.channels_to_manage(request.user)))


@require_GET
def deliveries_export(request: AuthenticatedRequest, channel_id: int, form: str = "csv") -> HttpResponseBase:
    channel = access.channel_to_manage(request.user, channel_id)
    rows = channel.notifications.order_by("-id").iterator(chunk_size=1_000)
    return file_response(form, file_name("deliveries", timezone.now()), DELIVERIES, map(_delivery, rows))


def _channels(channels: ChannelQuerySet) -> Iterator[list[Cell]]:
    for channel in channels.iterator(chunk_size=1_000):
        yield [
            *(channel.name, channel.kind),
            channel.tenant.slug if channel.tenant else None,
            channel.organisation.slug if channel.organisation else None,
            *(getattr(channel, name) for name in CHANNELS[4:]),
        ]


def _delivery(row: Notification) -> list[Cell]:
    return [getattr(row, name) for name in DELIVERIES]
