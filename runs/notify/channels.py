"""Channels: made, changed, removed, tried out. Their only writer."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from guardops.tenants.actors import System, acting
from guardops.tenants.errors import EditedMeanwhile, GuardOpsError
from guardops.tenants.models import Organisation, Tenant
from runs.choices import ChannelKind, SubjectKind
from runs.models import Channel, Notification

from .addresses import Address, SigningSecret, WebhookAddress, new_signing_secret, opened, sealed
from .relay import LEASE, Claim, deliver

if TYPE_CHECKING:
    from guardops.tenants.models import User

GRACE = timedelta(days=1)
"""For so long the secret before signs as well."""
MOST = 50
"""Channels of one place, at most."""
_TEST_EVERY = timedelta(seconds=5)


class InvalidChannel(GuardOpsError):
    """A channel can't be made, changed or tried out as asked: ``too_many``, ``not_signed``, ``too_soon``."""

    default_code: ClassVar[str] = "invalid_channel"


@dataclass(frozen=True, slots=True)
class Place:
    """Whose channel it is: a tenant's, an organisation's (no tenant), the installation's (neither)."""

    organisation: Organisation | None = None
    tenant: Tenant | None = None

    def __str__(self) -> str:
        return (
            self.tenant.name if self.tenant else self.organisation.name if self.organisation else "GuardOps"
        )


def create_channel(
    place: Place, address: Address, wants: Mapping[str, Any], *, actor: User | System, now: datetime
) -> Channel:
    """Make a channel; ``wants`` are its fields by name. Raises InvalidChannel where there are enough."""
    with acting(actor):
        there = Channel.objects.kept().filter(organisation=place.organisation, tenant=place.tenant)
        if there.count() >= MOST:
            raise InvalidChannel(f"There are {MOST} channels already; remove one first.", code="too_many")
        return Channel.objects.create(
            organisation=place.organisation,
            tenant=place.tenant,
            kind=ChannelKind(str(address.__struct_config__.tag)),
            destination=address.shown,
            secret=sealed(address),
            created_by=None if isinstance(actor, System) else actor,
            created_at=now,
            **wants,
        )


def update_channel(
    channel: Channel,
    wants: Mapping[str, Any],
    *,
    address: Address | None = None,
    version: int,
    actor: User | System,
) -> None:
    """Change a channel; without ``address`` it leads where it did. Raises EditedMeanwhile."""
    changes = dict(wants)
    if address is not None:
        changes |= {"secret": sealed(address), "destination": address.shown}
    with acting(actor):
        # Compare and set on the version: no edit is lost to another.
        found = Channel.objects.kept().filter(pk=channel.pk, version=version)
        if not found.update(version=version + 1, **changes):
            raise EditedMeanwhile("Somebody else has changed the channel.")


def remove_channel(channel: Channel, *, actor: User | System, now: datetime) -> bool:
    """Remove a channel and forget its address; False where somebody did so before."""
    with acting(actor):
        # Compare and set. What waits for it is dropped by the relay.
        found = Channel.objects.kept().filter(pk=channel.pk)
        return bool(found.update(removed_at=now, enabled=False, secret=b""))


def rotate_secret(channel: Channel, *, version: int, actor: User | System, now: datetime) -> SigningSecret:
    """Give a webhook another secret and return it; the one before signs as well for a day.

    Raises InvalidChannel for what is not signed, EditedMeanwhile, and Unreadable.
    """
    address = opened(channel.secret)
    if not isinstance(address, WebhookAddress):
        raise InvalidChannel("Only webhooks are signed.", code="not_signed")
    new, last = new_signing_secret(), address.secrets[0]
    both = (new, SigningSecret(last.secret, until=now + GRACE))
    update_channel(channel, {}, address=WebhookAddress(address.url, both), version=version, actor=actor)
    return new


def try_out(channel: Channel, *, now: datetime) -> Notification:
    """Send a test now and return how that went: a row of the channel's deliveries like any other.

    Raises InvalidChannel within seconds of the last one.
    """
    tests = Notification.objects.filter(channel=channel, kind=SubjectKind.TEST)
    if tests.filter(created_at__gt=now - _TEST_EVERY).exists():
        raise InvalidChannel("A test went out just now; wait a few seconds.", code="too_soon")
    message, until = uuid.uuid4(), now + LEASE
    row = Notification.objects.create(
        channel=channel,
        kind=SubjectKind.TEST,
        subject=message,
        transition="test",
        created_at=now,
        due_at=now,
        message=message,
        attempts=1,
        claimed_until=until,
    )
    deliver(Claim(message, channel, [row], until))
    row.refresh_from_db()
    return row
