"""Which sender an address has."""

from __future__ import annotations

from typing import assert_never

from .addresses import (
    Address,
    AlertmanagerAddress,
    MailAddress,
    PagerDutyAddress,
    ServiceAddress,
    WebhookAddress,
)
from .messages import Message
from .senders import alertmanager, mail, pagerduty, services, webhook


def send(address: Address, message: Message) -> str:
    """Send the message now and return what the receiver said; raises `senders.failing.NotTaken`."""
    match address:
        case MailAddress():
            return mail.send(address, message)
        case WebhookAddress():
            return webhook.send(address, message)
        case PagerDutyAddress():
            return pagerduty.send(address, message)
        case AlertmanagerAddress():
            return alertmanager.send(address, message)
        case ServiceAddress():
            return services.send(address, message)
        case _:
            assert_never(address)
