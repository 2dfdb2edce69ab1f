"""Webhooks in the form that Prometheus Alertmanager sends (version 4), for receivers that know it."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from typing import Any

import msgspec

from guardops.shown import visible_text
from runs.notify.addresses import AlertmanagerAddress
from runs.notify.items import Item
from runs.notify.messages import Message, stamp, title_of, url_of

from .failing import post

_NEVER = "0001-01-01T00:00:00Z"  # how Alertmanager writes no end


def send(address: AlertmanagerAddress, message: Message) -> str:
    """Post the alerts and return what was answered; raises NotTaken."""
    headers = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    return post(address.url, msgspec.json.encode(_document(message)), headers)


def _document(message: Message) -> dict[str, Any]:
    alerts = [_alert(item) for item in message.items] if message.items else [_test(message)]
    return {
        "version": "4",
        "groupKey": f"guardops/{message.id}",
        "truncatedAlerts": 0,
        "status": "firing" if any(alert["status"] == "firing" for alert in alerts) else "resolved",
        "receiver": message.channel,
        "groupLabels": {},
        "commonLabels": _common(alerts, "labels"),
        "commonAnnotations": _common(alerts, "annotations"),
        "externalURL": url_of("/"),
        "alerts": alerts,
    }


def _alert(item: Item) -> dict[str, Any]:
    labels = {
        "alertname": item.rule,
        "severity": item.severity.value,
        "tenant": item.tenant,
        "job_type": item.job_type,
        "release": item.release,
        "subject": item.subject,
        "incident": str(item.id),
    }
    return {
        "status": "resolved" if item.over else "firing",
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": visible_text(item.title), "description": item.rule_name},
        "startsAt": stamp(item.opened_at),
        "endsAt": stamp(item.resolved_at) if item.resolved_at else _NEVER,
        "generatorURL": url_of(item.path),
        "fingerprint": sha256(item.id.bytes).hexdigest()[:16],
    }


def _test(message: Message) -> dict[str, Any]:
    """Return an alert that ends by itself: whoever shows it shows it for five minutes."""
    return {
        "status": "firing",
        "labels": {"alertname": "guardops_test", "severity": "info"},
        "annotations": {"summary": title_of(message), "description": "Nothing is wrong."},
        "startsAt": stamp(message.at),
        "endsAt": stamp(message.at + timedelta(minutes=5)),
        "generatorURL": url_of("/"),
        "fingerprint": sha256(message.id.bytes).hexdigest()[:16],
    }


def _common(alerts: list[dict[str, Any]], of: str) -> dict[str, str]:
    first = alerts[0][of]
    return {name: value for name, value in first.items() if all(a[of].get(name) == value for a in alerts)}
