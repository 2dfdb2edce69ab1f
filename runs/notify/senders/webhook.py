"""Signed webhooks as Standard Webhooks describes them (https://www.standardwebhooks.com)."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from datetime import datetime
from hashlib import sha256

from runs.notify.addresses import WebhookAddress
from runs.notify.messages import Message, document_of

from .failing import post


def send(address: WebhookAddress, message: Message) -> str:
    """Post the document and return what was answered; raises NotTaken."""
    body = document_of(message)
    return post(address.url, body, signed_headers(address, str(message.id), body, message.at))


def signed_headers(address: WebhookAddress, key: str, body: bytes, at: datetime) -> dict[str, str]:
    """Return the three headers; the id stays the same at each try, the time is that of the try."""
    moment = str(int(at.timestamp()))
    content = b".".join((key.encode(), moment.encode(), body))
    living = [signer for signer in address.secrets if signer.until is None or signer.until > at]
    return {
        "webhook-id": key,
        "webhook-timestamp": moment,
        "webhook-signature": " ".join(f"v1,{_signature(signer.secret, content)}" for signer in living),
    }


def _signature(secret: str, content: bytes) -> str:
    key = b64decode(secret.removeprefix("whsec_"))
    return b64encode(hmac.new(key, content, sha256).digest()).decode()
