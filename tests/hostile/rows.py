"""Rows of people and policies whose every text is a payload, found by walking the models.

A text field that is neither filled here nor named as unable to hold what somebody else wrote fails a test, so
that a new one is thought of.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from django.apps import apps
from django.db import models

from guardops.guard.decisions import DecisionAction, DecisionChange, Reconciled
from guardops.tenants.actors import SYSTEM
from guardops.tenants.models import Invitation, Organisation, SavedView, Tenant, User
from policies.choices import StopScope
from policies.models import BlockedSource, Change, GuardInstance, JobPolicy, PolicyVersion, Stop
from policies.publish.policies import Place, save_policy
from policies.publish.sources import Reach, Wanted, block_sources
from policies.publish.stops import issue_stop
from policies.publish.writing import publishing
from policies.pull.fleet import Sign, write_signs
from runs.alerts.evidence import Evidence, Figure, Series
from runs.alerts.incidents import Finding, open_incident, resolve
from runs.alerts.rules import SPECS
from runs.alerts.setting import set_rule
from runs.alerts.silences import silence
from runs.checkpoints.choice import Choice
from runs.checkpoints.decide import decide
from runs.checkpoints.packet import read_packet
from runs.choices import RuleKind, Severity, StopVerdict
from runs.health.pulse import write_pulse
from runs.models import (
    Channel,
    Checkpoint,
    Incident,
    IncidentStep,
    Notification,
    Rule,
    Run,
    Silence,
    StopReview,
)
from runs.notify.addresses import MailAddress
from runs.notify.channels import MOST as MOST_CHANNELS
from runs.notify.channels import Place as ChannelPlace
from runs.notify.channels import create_channel
from runs.review.stops import review_stop
from tests.factories import NOW, make_invitation, make_key, make_member
from tests.hostile.payloads import PAYLOADS, endless

_HOUR = timedelta(hours=1)
SAFE = {
    # Made by us, or held to a pattern by the database.
    *("User.password", "User.username", "Organisation.slug", "Organisation.time_zone", "Tenant.slug"),
    *("ApiKey.prefix", "SavedView.page", "SavedView.query", "BundleRevision.epoch"),
    *("BundleRevision.content_hash", "SigningSecret.kid", "SigningSecret.secret", "Epoch.name"),
    *(
        "GuardInstance.applied_epoch",
        "GuardInstance.applied_hash",
        "BlockedSource.name",
        "BlockedSource.evidence",
    ),
    "PolicyVersion.document",
    "Notification.transition",
    # Counts of runs, whose names the pages show from the runs; ids that nobody is shown.
    *("ExternalRun.external_id", "TaskCompletion.root_task_id", "RunSource.kind", "RunSource.name"),
    *("Rollup.job_type", "Rollup.release", "Histogram.job_type", "Histogram.release"),
    *("Histogram.step_unit", "SourceDay.kind", "SourceDay.name", "RetentionRun.progress"),
    "Pulse.name",
    *("LoopMinute.job_type", "LoopMinute.release", "AlertState.job_type", "AlertState.state"),
    *("Rule.parameters", "Evaluation.error"),
}
POSTED = {"Run", "LiveRun", "RefusedWork", "Checkpoint"}
"""Models that hostile events fill."""
DECIDED = {
    *("Decision.reason", "Decision.answer", "Decision.change", "Decision.reconciled", "Decision.tool"),
    *("Decision.args_hash", "Decision.artifact_digest", "CheckpointNote.text"),
    *("Incident.evidence", "Incident.query"),
}
"""Texts that verbs fill, in `decide_hostile_checkpoints` and `open_incidents`, or that a checkpoint has."""
FILLED: dict[type[models.Model], list[str]] = {
    User: ["first_name", "last_name", "email"],
    Organisation: ["name"],
    Tenant: ["name"],
    apps.get_model("tenants", "ApiKey"): ["name"],
    Invitation: ["invitee"],
    SavedView: ["name"],
    Change: ["summary", "failure"],
    GuardInstance: ["version", "source", "reject_code"],
    JobPolicy: ["job_type"],
    PolicyVersion: ["note"],
    BlockedSource: ["reason", "note"],
    Stop: ["name", "reason"],
    StopReview: ["detector", "note"],
    apps.get_model("runs", "RetentionRun"): ["error"],
    Incident: ["subject", "job_type", "release", "title", "resolved_how"],
    IncidentStep: ["note"],
    Rule: ["job_type"],
    Silence: ["subject", "reason"],
    Channel: ["name", "destination"],
    Notification: ["said", "outcome"],
    apps.get_model("runs", "Pulse"): ["error"],
}


def text_fields() -> Iterator[str]:
    """Yield every text that a model of ours keeps, but for choices and audit rows."""
    for app in ("tenants", "policies", "runs"):
        for model in apps.get_app_config(app).get_models():
            if hasattr(model, "pgh_tracked_model") or model.__name__ in POSTED:
                continue
            for field in model._meta.concrete_fields:
                texts = isinstance(field, models.CharField | models.TextField | models.JSONField)
                if texts and not field.choices:
                    yield f"{model.__name__}.{field.name}"


def insert_hostile_rows(tenant: Tenant, person: User, runs: list[Run]) -> None:
    """Make sixty of each thing, or as many as one may have, and put the payloads into their texts."""
    organisation = tenant.organisation
    for number, _ in enumerate(PAYLOADS):
        make_key(tenant, name="x")
        make_member(tenant)
        make_invitation(tenant, by=person, invitee=f"guest-{number}")
        issue_stop(tenant, StopScope.RUN, f"run-{number}", reason="x", actor=person, now=NOW)
        place = Place(organisation, tenant, f"job-{number}")
        save_policy(place, {"limits": {"max_steps": 9}}, seen=0, actor=person, now=NOW, note="x")
        SavedView.objects.create(owner=person, page="runs", name=f"view-{number}", query="")
        write_signs({(tenant.pk, str(uuid4())): Sign(NOW, "", "", "")})
    wanted = [Wanted(f"name-{number}.example", reason="x") for number, _ in enumerate(PAYLOADS)]
    block_sources(Reach(organisation, tenant), wanted, actor=person, now=NOW)
    write_pulse("heartbeat", NOW)
    for run in runs:
        review_stop(
            run, verdict=StopVerdict.FALSE_STOP, detector="x", note="", actor=person, now=NOW, seen=None
        )
    insert_channels(tenant, person)
    open_incidents(tenant, person)
    with publishing(SYSTEM):
        for shift, (model, fields) in enumerate(FILLED.items()):
            _fill(model, fields, shift)


def open_incidents(tenant: Tenant, person: User) -> None:
    """Open sixty incidents with payloads in their evidence, and as many silences and rules of job types."""
    spec, texts = SPECS[RuleKind.COST], endless(5)
    limits = {limit.name: limit.default for limit in spec.parameters}
    for number, payload in enumerate(PAYLOADS):
        evidence = Evidence(
            figures=[Figure(next(texts), payload, next(texts))],
            title=next(texts),
            start=NOW,
            step_s=3_600,
            series=[Series(next(texts), [1, 2])],
            facts=[next(texts)],
        )
        finding = Finding(
            tenant_id=tenant.pk,
            rule=RuleKind.COST,
            subject=f"job-{number}",
            title="x",
            severity=Severity.WARNING,
            evidence=evidence.as_json(),
            query={"job": next(texts)},
        )
        incident = open_incident(finding, now=NOW).incident
        resolve(incident, actor=person, now=NOW, version=1)
        until = datetime.now(UTC) + timedelta(hours=1)
        silence(tenant, rule=None, subject="x", until=until, reason="x", actor=person, now=until - _HOUR)
        how = {"values": limits, "enabled": True, "severity": Severity.INFO}
        set_rule(spec, tenant, f"job-{number}", actor=person, now=NOW, version=0, **how)  # type: ignore[arg-type]


def insert_channels(tenant: Tenant, person: User) -> None:
    """Make sixty channels, the first of which was tried out sixty times."""
    address = MailAddress(("kim@example.com",))
    for number, _ in enumerate(PAYLOADS):
        whose = ChannelPlace(tenant.organisation, tenant if number < MOST_CHANNELS else None)
        create_channel(whose, address, {"name": "x"}, actor=person, now=NOW)
    first = Channel.objects.earliest("pk")
    Notification.objects.bulk_create(
        Notification(
            channel=first,
            kind="test",
            subject=uuid4(),
            transition="test",
            state="sent",
            **dict.fromkeys(("created_at", "due_at", "ended_at"), NOW),
        )
        for _ in PAYLOADS
    )


def decide_hostile_checkpoints(tenant: Tenant, person: User) -> None:
    """Decide every checkpoint in each way in turn, with payloads for all that a person may write."""
    texts, now = endless(11), datetime.now(UTC)
    for number, one in enumerate(Checkpoint.objects.for_tenants([tenant.pk]).order_by("pk")):
        choice = Choice(
            list(DecisionAction)[number % len(DecisionAction)],
            reason=next(texts),
            answer=next(texts),
            change=DecisionChange(input=next(texts), evidence=next(texts)),
            reconciled=tuple(
                Reconciled(tool=call.tool, args_hash=call.args_hash, happened=True)
                for call in read_packet(one).uncertain
            ),
            note=next(texts),
        )
        decide(one, choice, actor=person, now=now, version=one.version)


def _fill(model: type[models.Model], fields: list[str], shift: int) -> None:
    rows: list[Any] = list(model._default_manager.order_by("pk"))
    for number, name in enumerate(fields):
        most = getattr(model._meta.get_field(name), "max_length", None) or _SHORTEST.get(name, 250)
        for row, payload in zip(rows, endless(shift * 7 + number * 13), strict=False):
            setattr(row, name, payload[:most])
    for row in rows:
        row.save(update_fields=fields)


_SHORTEST = {"detector": 64, "job_type": 128, "name": 128}
"""Bounds that the database holds by a check, not by the field."""
