"""One message to one channel: what it says, as text for people and as a document for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from django.conf import settings

from guardops.shown import visible_text
from runs.choices import Severity, Transition

from .items import Item
from .outbox import REPEAT

MAX_TITLE = 250


@dataclass(frozen=True, slots=True)
class Message:
    """What a channel is sent at once. ``id`` stays the same at every try.

    Exactly one of: ``items`` are incidents; ``body`` is the document of another subject as it goes out; or
    neither, which makes it a test.
    """

    id: UUID
    at: datetime
    channel: str
    items: Sequence[Item] = ()
    body: bytes | None = None

    @property
    def is_test(self) -> bool:
        return not self.items and self.body is None

    @property
    def worst(self) -> Severity:
        return max((item.severity for item in self.items), key=lambda s: s.rank, default=Severity.INFO)


def title_of(message: Message) -> str:
    """Return the message in one line, nothing unseen in it."""
    if message.is_test:
        return "Test from GuardOps"
    if message.body is not None:
        return "A decision on a checkpoint"
    if len(message.items) == 1:
        item = message.items[0]
        return _line(f"[{_word(item)}] {item.place}: {item.title}", MAX_TITLE)
    counts = Counter(_word(item) for item in message.items)
    parts = ", ".join(f"{number} {word.lower()}" for word, number in counts.most_common())
    return f"[GuardOps] {len(message.items)} incidents: {parts}"


def text_of(message: Message) -> str:
    """Return the message for people, in plain text."""
    if message.is_test:
        return (
            "This is a test: nothing is wrong.\n"
            f"The channel “{_line(message.channel, 128)}” works. Incidents arrive here from now on.\n"
        )
    blocks = [_block(item) for item in message.items]
    last = f"You are told by the channel “{_line(message.channel, 128)}” of GuardOps."
    return "\n\n".join([*blocks, last]) + "\n"


def document_of(message: Message) -> bytes:
    """Return the message for machines, as JSON."""
    if message.body is not None:
        return message.body
    kind = "guardops.test" if message.is_test else "guardops.incidents"
    data: dict[str, Any] = {"channel": message.channel}
    if not message.is_test:
        data["incidents"] = [_document(item) for item in message.items]
    return msgspec.json.encode({"type": kind, "timestamp": stamp(message.at), "data": data})


def url_of(path: str) -> str:
    """Return a page's whole address; only its path where the installation does not know its own."""
    return f"{settings.WEB_URL}{path}"


def stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _word(item: Item) -> str:
    if item.over:
        return "Resolved"
    if item.transition == Transition.ACKNOWLEDGED:
        return "Acknowledged"
    return f"Still {item.severity.label.lower()}" if item.transition == REPEAT else item.severity.label


def _block(item: Item) -> str:
    facts = [f"Opened {item.opened_at.astimezone(UTC):%d %B %Y %H:%M} UTC", item.rule_name]
    if item.release:
        facts.append(f"release {item.release}")
    if item.over and item.resolved_at:
        facts.append(f"over {item.resolved_at.astimezone(UTC):%d %B %Y %H:%M} UTC, {item.resolved_how}")
    elif item.acknowledged_by:
        facts.append(f"{item.acknowledged_by} looks after it")
    lines = [f"{_word(item).upper()} · {item.place}", item.title, " · ".join(facts)]
    return "\n".join([*(_line(line, 500) for line in lines), url_of(item.path)])


def _document(item: Item) -> dict[str, Any]:
    return {
        "id": str(item.id),
        "transition": item.transition,
        "version": item.version,
        "title": item.title,
        "severity": item.severity.value,
        "state": item.state.value,
        "rule": item.rule,
        "subject": item.subject,
        "tenant": item.tenant or None,
        "job_type": item.job_type or None,
        "release": item.release or None,
        "opened_at": stamp(item.opened_at),
        "acknowledged_by": item.acknowledged_by or None,
        "resolved_at": stamp(item.resolved_at) if item.resolved_at else None,
        "resolved_how": item.resolved_how or None,
        "url": url_of(item.path),
    }


def _line(text: str, most: int) -> str:
    line = " ".join(visible_text(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"
