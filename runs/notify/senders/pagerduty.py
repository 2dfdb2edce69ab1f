"""PagerDuty's Events API v2, and what takes the same events."""

from __future__ import annotations

from typing import Any

import msgspec

from guardops.shown import visible_text
from runs.choices import Severity, Transition
from runs.notify.addresses import PagerDutyAddress
from runs.notify.items import Item
from runs.notify.messages import Message, stamp, title_of, url_of

from .failing import post

_SEVERITY = {Severity.CRITICAL: "critical", Severity.WARNING: "warning", Severity.INFO: "info"}
_MAX_SUMMARY = 1_024


def send(address: PagerDutyAddress, message: Message) -> str:
    """Send an event for each incident and return the last answer; raises NotTaken.

    The key that PagerDuty tells incidents apart by is ours, so that an event sent again adds nothing.
    """
    if message.is_test:
        post(address.url, _encoded(address, _test(message, "trigger")), {})
        return post(address.url, _encoded(address, _test(message, "resolve")), {})
    answer = ""
    for item in message.items:
        answer = post(address.url, _encoded(address, _event(item)), {})
    return answer


def _encoded(address: PagerDutyAddress, event: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"routing_key": address.routing_key, **event})


def _event(item: Item) -> dict[str, Any]:
    event: dict[str, Any] = {"dedup_key": f"guardops-{item.id}", "event_action": _action(item)}
    if event["event_action"] != "trigger":
        return event
    return event | {
        "client": "GuardOps",
        "client_url": url_of(item.path),
        "payload": {
            "summary": visible_text(f"{item.place}: {item.title}")[:_MAX_SUMMARY],
            "source": item.place,
            "severity": _SEVERITY[item.severity],
            "timestamp": stamp(item.opened_at),
            "component": item.job_type or "guardops",
            "group": item.tenant or "installation",
            "class": item.rule,
            "custom_details": {"subject": item.subject, "release": item.release, "version": item.version},
        },
    }


def _action(item: Item) -> str:
    if item.over:
        return "resolve"
    return "acknowledge" if item.transition == Transition.ACKNOWLEDGED else "trigger"


def _test(message: Message, action: str) -> dict[str, Any]:
    event: dict[str, Any] = {"dedup_key": f"guardops-test-{message.id}", "event_action": action}
    if action == "resolve":
        return event
    payload = {"summary": title_of(message), "source": "guardops", "severity": "info"}
    return event | {"client": "GuardOps", "payload": payload}
