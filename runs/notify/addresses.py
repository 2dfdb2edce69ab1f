"""Where a channel leads: one type a kind, kept encrypted as JSON. What may be shown of each is ``shown``."""

from __future__ import annotations

import secrets
from base64 import b64encode
from datetime import datetime
from typing import TypeAlias

import msgspec
from msgspec import Struct

from runs.choices import ChannelKind

from . import client
from .secrets import decrypt, encrypt

PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue"
_SHOWN = 300


class SigningSecret(Struct, frozen=True):
    """What a webhook is signed with, ``whsec_…``; after ``until`` no longer."""

    secret: str
    until: datetime | None = None


class MailAddress(Struct, frozen=True, tag=ChannelKind.MAIL.value):
    to: tuple[str, ...]

    @property
    def shown(self) -> str:
        return _cut(", ".join(self.to))


class WebhookAddress(Struct, frozen=True, tag=ChannelKind.WEBHOOK.value):
    url: str
    secrets: tuple[SigningSecret, ...]
    """The newest first; while another one is taken over, both sign."""

    @property
    def shown(self) -> str:
        return _cut(client.target_of(self.url).shown)


class PagerDutyAddress(Struct, frozen=True, tag=ChannelKind.PAGERDUTY.value):
    routing_key: str
    url: str = PAGERDUTY_URL

    @property
    def shown(self) -> str:
        return _cut(client.target_of(self.url).shown)


class AlertmanagerAddress(Struct, frozen=True, tag=ChannelKind.ALERTMANAGER.value):
    url: str
    token: str = ""
    """Sent as ``Authorization: Bearer``, where there is one."""

    @property
    def shown(self) -> str:
        return _cut(client.target_of(self.url).shown)


class ServiceAddress(Struct, frozen=True, tag=ChannelKind.APPRISE.value):
    url: str
    service: str
    """Its name, as a page may show it."""

    @property
    def shown(self) -> str:
        return _cut(self.service)


Address: TypeAlias = MailAddress | WebhookAddress | PagerDutyAddress | AlertmanagerAddress | ServiceAddress

_decoder = msgspec.json.Decoder(Address)


def sealed(address: Address) -> bytes:
    return encrypt(msgspec.json.encode(address))


def opened(secret: bytes | memoryview) -> Address:
    """Return the address that ``sealed`` wrote; raises Unreadable after a change of the secret key."""
    return _decoder.decode(decrypt(bytes(secret)))


def new_signing_secret() -> SigningSecret:
    """Make a secret of 256 bits as Standard Webhooks writes it."""
    return SigningSecret("whsec_" + b64encode(secrets.token_bytes(32)).decode())


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
