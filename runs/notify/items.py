"""What is told of incidents, as they are at the moment of sending, and whether it still has to be told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from django.urls import reverse

from runs.choices import IncidentState, Severity, SubjectKind, Transition
from runs.models import Incident, Notification, Silence

from .outbox import PAGES, REPEAT

if TYPE_CHECKING:
    from runs.models import Channel


@dataclass(frozen=True, slots=True)
class Item:
    """One incident in a message, and what happened to it. Texts are as others wrote them."""

    id: UUID
    transition: str
    version: int
    title: str
    severity: Severity
    state: IncidentState
    rule: str
    rule_name: str
    subject: str
    tenant: str
    """Its slug; empty for what concerns the installation."""
    job_type: str
    release: str
    opened_at: datetime
    acknowledged_by: str
    resolved_at: datetime | None
    resolved_how: str
    path: str

    @property
    def over(self) -> bool:
        return self.state == IncidentState.RESOLVED

    @property
    def place(self) -> str:
        return " / ".join(part for part in (self.tenant or "installation", self.job_type) if part)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which of some notifications are to be told, and why each of the others is not."""

    told: Sequence[tuple[Notification, Item]]
    dropped: Sequence[tuple[Notification, str]]


def choose(channel: Channel, notifications: Iterable[Notification], now: datetime) -> Chosen:
    """Say what of these notifications of incidents is still to be told: at most one of each incident."""
    rows = sorted(notifications, key=lambda row: row.pk)
    found = Incident.objects.select_related("tenant", "acknowledged_by").in_bulk(
        {row.subject for row in rows}
    )
    told_before = _told_before(channel, rows)
    chosen: dict[UUID, tuple[Notification, Item]] = {}
    dropped: list[tuple[Notification, str]] = []
    for row in rows:
        incident = found.get(row.subject)
        if incident is None:
            dropped.append((row, "The incident is gone."))
        elif why := _not_wanted(row, incident, row.subject in told_before, now):
            dropped.append((row, why))
        else:
            # The last one tells it all: each is told as the incident is now.
            if earlier := chosen.get(row.subject):
                dropped.append((earlier[0], "Told together with what followed."))
            chosen[row.subject] = (row, _item(row, incident))
    return Chosen(list(chosen.values()), dropped)


def _not_wanted(row: Notification, incident: Incident, told_before: bool, now: datetime) -> str:
    """Return why a notification is not to be told, in a sentence; empty where it is."""
    if row.transition in PAGES or row.transition == REPEAT:
        if incident.state != IncidentState.OPEN:
            return f"Not sent: it was {incident.get_state_display().lower()} by then."
        if Silence.objects.in_force(now).covering(incident).exists():
            return "Not sent: a silence covers it."
        return ""
    if not told_before:
        return "Not sent: the channel was not told that it began."
    if row.transition == Transition.ACKNOWLEDGED and incident.state != IncidentState.ACKNOWLEDGED:
        return "Not sent: it was no longer acknowledged."
    if row.transition == Transition.RESOLVED and incident.state != IncidentState.RESOLVED:
        return "Not sent: it was open again."
    return ""


def _told_before(channel: Channel, rows: Sequence[Notification]) -> set[UUID]:
    """Return the incidents that the channel may have been told of; an attempt that broke off counts."""
    told = Notification.objects.filter(channel=channel).told(
        SubjectKind.INCIDENT, {row.subject for row in rows}
    )
    others = told.exclude(pk__in=[row.pk for row in rows]).values_list("subject", flat=True)
    return {*others, *(row.subject for row in rows if row.attempts > 1)}


def _item(row: Notification, incident: Incident) -> Item:
    by = incident.acknowledged_by
    return Item(
        id=incident.pk,
        transition=row.transition,
        version=incident.version,
        title=incident.title,
        severity=Severity(incident.severity),
        state=IncidentState(incident.state),
        rule=incident.rule,
        rule_name=incident.get_rule_display(),
        subject=incident.subject,
        tenant=incident.tenant.slug if incident.tenant else "",
        job_type=incident.job_type,
        release=incident.release,
        opened_at=incident.opened_at,
        acknowledged_by=by.get_username() if by else "",
        resolved_at=incident.resolved_at,
        resolved_how=incident.resolved_how,
        path=reverse("runs:incident", args=[incident.pk]),
    )
