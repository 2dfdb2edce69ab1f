"""Incidents: opened and resolved by rules, acknowledged, assigned and noted by people. Their only writer.

A rule that finds the same thing again changes nothing that a person sees happen, so it leaves ``version``
alone; every transition adds one to it, writes a line of the log and tells those who want to know, in one
transaction. A person's verb names the version that they were shown: who comes too late is told what happened
in between (`IncidentChanged`), and nothing is undone unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import IntegrityError, transaction
from django.db.models import F

from guardops.tenants.errors import GuardOpsError
from runs.choices import IncidentState, RuleKind, Severity, Transition
from runs.models import Incident, IncidentStep
from runs.models.alerts import MAX_NOTE, MAX_SUBJECT, MAX_TITLE

from .telling import tell

if TYPE_CHECKING:
    from guardops.tenants.models import User

REOPENS_WITHIN = timedelta(minutes=30)
"""What comes back so soon is the same incident: it reopens, and nobody who was told is told again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule found. ``subject`` tells apart what the rule finds in one tenant (at most 300 characters).

    ``window`` is the end of the window that was judged: what was found in it is found once, even where it is
    judged again. ``evidence`` is what `runs.alerts.evidence` writes, or a function that returns it, asked
    when the incident opens: it is kept as it was then. ``query`` holds the parameters of the list that shows
    what is meant (`runs.alerts.links`), without the tenant.
    """

    tenant_id: int | None
    rule: RuleKind
    title: str
    severity: Severity
    subject: str = ""
    job_type: str = ""
    release: str = ""
    window: datetime | None = None
    evidence: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Opened:
    """The incident of a finding, and what happened to it; None where it was there already."""

    incident: Incident
    transition: Transition | None


@dataclass(frozen=True, slots=True)
class Change:
    """Who changed an incident last (empty: GuardOps itself), when, and how in a word: ``acknowledged``."""

    by: str
    at: datetime
    did: str


class IncidentChanged(GuardOpsError):
    """Somebody, or its rule, changed the incident since its author saw it; ``current`` is how it is now."""

    default_code: ClassVar[str] = "incident_changed"

    def __init__(self, change: Change, current: Incident) -> None:
        super().__init__("The incident changed since you opened it. Nothing of yours was saved.")
        self.change, self.current = change, current


class InvalidIncident(GuardOpsError):
    """An incident can't be changed so: ``no_note``, ``opened_anew``."""

    default_code: ClassVar[str] = "invalid_incident"


def open_incident(finding: Finding, *, now: datetime) -> Opened:
    """Open the finding's incident, reopen the one that was resolved of late, or note that it is still there.

    Safe in any number of transactions at once: there is one open incident a rule, tenant and subject. One
    that a person resolved stays so for half an hour, and then opens anew if its rule still finds it.
    """
    of = {"rule": finding.rule, "tenant": finding.tenant_id, "subject": finding.subject[:MAX_SUBJECT]}
    for _ in range(3):
        with transaction.atomic():
            current = Incident.objects.unresolved().filter(**of).select_for_update(of=("self",)).first()
            if current is not None:
                return _find_again(current, finding, now)
            last = Incident.objects.filter(**of).order_by("-opened_at").first()
            if last is not None and _stays_resolved(last, finding, now):
                return Opened(last, None)
            try:
                with transaction.atomic():  # a savepoint: the unique key lets one of two in
                    if last is not None and _is_recent(last, now):
                        return _reopen_found(last, finding, now)
                    return _open(of, finding, now)
            except (IntegrityError, IncidentChanged):
                continue  # another was first; find it
    raise RuntimeError(f"No incident of {finding.rule} could be opened or found.")


def resolve_incident(
    tenant_id: int | None, rule: RuleKind, subject: str, *, now: datetime, how: str
) -> Incident | None:
    """Resolve the open incident of a rule and subject, since it is over; None where there is none."""
    with transaction.atomic():
        open_ones = Incident.objects.unresolved().filter(
            rule=rule, tenant=tenant_id, subject=subject[:MAX_SUBJECT]
        )
        incident = open_ones.select_for_update(of=("self",)).first()
        if incident is None:
            return None
        changes: dict[str, Any] = {
            "state": IncidentState.RESOLVED,
            "resolved_at": now,
            "resolved_how": how,
        }
        return _move(incident, Transition.RESOLVED, now=now, note=how, **changes)


def acknowledge(incident: Incident, *, actor: User, now: datetime, version: int) -> Incident:
    """Say that ``actor`` looks after it; raises IncidentChanged where it is acknowledged or over already."""
    with transaction.atomic():
        current = _at_version(incident, version, IncidentState.OPEN)
        changes: dict[str, Any] = {
            "state": IncidentState.ACKNOWLEDGED,
            "acknowledged_at": now,
            "acknowledged_by": actor,
        }
        return _move(current, Transition.ACKNOWLEDGED, now=now, by=actor, **changes)


def assign(
    incident: Incident, to: User | None, *, actor: User, now: datetime, version: int, note: str = ""
) -> Incident:
    """Give it to somebody, or with None to nobody; raises IncidentChanged where it is over already."""
    with transaction.atomic():
        current = _at_version(incident, version, IncidentState.OPEN, IncidentState.ACKNOWLEDGED)
        return _move(current, Transition.ASSIGNED, now=now, by=actor, to=to, note=note, assigned_to=to)


def resolve(incident: Incident, *, actor: User, now: datetime, version: int, note: str = "") -> Incident:
    """Say that it is over; raises IncidentChanged where somebody, or its rule, was first."""
    with transaction.atomic():
        current = _at_version(incident, version, IncidentState.OPEN, IncidentState.ACKNOWLEDGED)
        changes: dict[str, Any] = {
            "state": IncidentState.RESOLVED,
            "resolved_at": now,
            "resolved_by": actor,
        }
        return _move(
            current, Transition.RESOLVED, now=now, by=actor, note=note, resolved_how="by hand", **changes
        )


def reopen(incident: Incident, *, actor: User, now: datetime, version: int, note: str = "") -> Incident:
    """Take back that it is over; raises InvalidIncident where its rule has opened another since."""
    try:
        with transaction.atomic():
            current = _at_version(incident, version, IncidentState.RESOLVED)
            return _move(current, Transition.REOPENED, now=now, by=actor, note=note, **_reopened(current))
    except IntegrityError as error:
        raise InvalidIncident("It has opened anew since; look at that one.", code="opened_anew") from error


def add_note(incident: Incident, text: str, *, actor: User, now: datetime) -> IncidentStep:
    """Write something beside it, over or not: a note disturbs nobody, so it asks for no version."""
    if not text.strip():
        raise InvalidIncident("Write something first.", code="no_note")
    return IncidentStep.objects.create(
        incident=incident,
        transition=Transition.NOTED,
        version=incident.version,
        at=now,
        by=actor,
        note=text.strip()[:MAX_NOTE],
    )


def unsilence(incident: Incident, *, now: datetime) -> Incident:
    """Tell of an open incident whose silence has ended; the caller holds its row."""
    return _move(incident, Transition.UNSILENCED, now=now)


def _open(of: Mapping[str, Any], finding: Finding, now: datetime) -> Opened:
    evidence = finding.evidence() if callable(finding.evidence) else finding.evidence
    incident = Incident.objects.create(
        tenant_id=of["tenant"],
        rule=finding.rule,
        subject=of["subject"],
        job_type=finding.job_type,
        release=finding.release,
        title=finding.title[:MAX_TITLE],
        severity=finding.severity,
        opened_at=now,
        last_at=now,
        window=finding.window,
        evidence=dict(evidence),
        query=dict(finding.query),
    )
    _log(incident, Transition.OPENED, now)
    return Opened(incident, Transition.OPENED)


def _find_again(incident: Incident, finding: Finding, now: datetime) -> Opened:
    """Note that it is still there; what was told of it stays, but for its sentence, which tells of now."""
    incident.last_at = max(now, incident.last_at)
    incident.window = _later(incident.window, finding.window)
    incident.clear, incident.title = 0, finding.title[:MAX_TITLE]
    incident.save(update_fields=["last_at", "window", "clear", "title"])
    if finding.severity.rank <= Severity(incident.severity).rank:
        return Opened(incident, None)
    return Opened(_move(incident, Transition.WORSE, now=now, severity=finding.severity), Transition.WORSE)


def _reopen_found(last: Incident, finding: Finding, now: datetime) -> Opened:
    changes: dict[str, Any] = {
        "title": finding.title[:MAX_TITLE],
        "last_at": max(now, last.last_at),
        "window": _later(last.window, finding.window),
    }
    reopened = _move(last, Transition.REOPENED, now=now, **changes, **_reopened(last))
    return Opened(reopened, Transition.REOPENED)


def _reopened(incident: Incident) -> dict[str, Any]:
    """Return what reopening changes: who had acknowledged it still looks after it."""
    acknowledged = incident.acknowledged_at is not None
    return {
        "state": IncidentState.ACKNOWLEDGED if acknowledged else IncidentState.OPEN,
        "resolved_at": None,
        "resolved_by": None,
        "resolved_how": "",
        "reopened": F("reopened") + 1,
        "clear": 0,
    }


def _stays_resolved(last: Incident, finding: Finding, now: datetime) -> bool:
    """Say whether a finding is old news: its window was judged, or a person has just said that it is over."""
    # A window that lies ahead is of a clock that was set back since: it says nothing of the ones before it.
    if finding.window is not None and last.window is not None and finding.window <= last.window <= now:
        return True
    return last.resolved_by_id is not None and _is_recent(last, now)


def _is_recent(last: Incident, now: datetime) -> bool:
    # A clock that was set back counts as no time at all.
    return last.resolved_at is not None and now - last.resolved_at < REOPENS_WITHIN


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max(filter(None, (one, other)), default=None)


def _at_version(incident: Incident, version: int, *states: IncidentState) -> Incident:
    """Lock the incident as its author saw it; raises IncidentChanged where it is another or elsewhere."""
    current = Incident.objects.select_for_update(of=("self",)).get(pk=incident.pk)
    if current.version != version or current.state not in states:
        raise IncidentChanged(_last_change(current), current)
    return current


def _last_change(incident: Incident) -> Change:
    steps = incident.steps.exclude(transition=Transition.NOTED).select_related("by")
    step = steps.latest("id")
    return Change(step.by.get_username() if step.by else "", step.at, step.get_transition_display())


def _move(
    incident: Incident,
    transition: Transition,
    *,
    now: datetime,
    by: User | None = None,
    to: User | None = None,
    note: str = "",
    **changes: Any,
) -> Incident:
    """Carry out a transition: compare and set on the version, a line of the log, and who is told."""
    moved = Incident.objects.filter(pk=incident.pk, version=incident.version).update(
        version=incident.version + 1, **changes
    )
    if not moved:
        current = Incident.objects.get(pk=incident.pk)
        raise IncidentChanged(_last_change(current), current)
    incident.refresh_from_db()
    _log(incident, transition, now, by=by, to=to, note=note)
    return incident


def _log(
    incident: Incident,
    transition: Transition,
    now: datetime,
    *,
    by: User | None = None,
    to: User | None = None,
    note: str = "",
) -> None:
    IncidentStep.objects.create(
        incident=incident,
        transition=transition,
        version=incident.version,
        at=now,
        by=by,
        to=to,
        note=note.strip()[:MAX_NOTE],
        silenced=not tell(incident, transition, now=now),
    )
