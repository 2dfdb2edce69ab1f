"""What waits for people: late checkpoints, decisions that nobody takes up, stops marked as false."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min, Q

from guardops import shown
from runs.alerts.evidence import Evidence, Figure
from runs.alerts.incidents import Finding
from runs.alerts.verdicts import Asked, Subject, Verdict
from runs.checkpoints.filters import ANY
from runs.choices import CheckpointState, RuleKind, StopVerdict
from runs.models import Checkpoint, Decision, StopReview
from runs.reasons_text import clause
from runs.reports.intervals import wilson

RECENT = timedelta(days=14)
BEFORE = timedelta(days=90)
_HOLDS = 0.75  # of the share that it takes


def check_review_sla(asked: Asked) -> Verdict:
    """Find tenants with checkpoints that should have been decided by now."""
    rows = (
        Checkpoint.objects.over_sla(asked.now)
        .filter(expires_at__gt=asked.now)
        .values("tenant_id")
        .annotate(late=Count("id"), oldest=Min("due_at"), agents=Count("job_type", distinct=True))
        .order_by()
    )
    findings = []
    for row in rows:
        setting, late = asked.settings.of(row["tenant_id"]), row["late"]
        if not setting.enabled or late < setting["checkpoints"]:
            continue
        over = shown.duration(asked.now - row["oldest"])
        evidence = Evidence(
            figures=[
                Figure("Late", shown.count(late), "checkpoints"),
                Figure("The oldest", over, "past its time"),
                Figure("Job types", shown.count(row["agents"]), "whose agents wait"),
            ],
            facts=["An agent that nobody answers does what its checkpoint says for that case, and no more."],
        )
        number = "A checkpoint is" if late == 1 else f"{shown.count(late)} checkpoints are"
        findings.append(
            Finding(
                tenant_id=row["tenant_id"],
                rule=RuleKind.REVIEW_SLA,
                title=f"{number} past the time for review, the oldest by {over}.",
                severity=setting.severity,
                evidence=evidence.as_json(),
                query={"list": "review", "over": "1"},
            )
        )
    return Verdict(findings)


def check_unconsumed(asked: Asked) -> Verdict:
    """Find tenants with decisions of people that no agent has taken up."""
    rows = (
        Decision.objects.unconsumed()
        .filter(by_system=False, expires_at__gt=asked.now, deliver_at__lte=asked.now)
        .values_list("tenant_id", "deliver_at", "delivered_at")
        .order_by()
    )
    waiting: defaultdict[int, list[tuple[datetime, bool]]] = defaultdict(list)
    for tenant_id, deliver_at, delivered_at in rows:
        late = timedelta(minutes=asked.settings.of(tenant_id)["minutes"])
        if asked.now - deliver_at >= late:
            waiting[tenant_id].append((deliver_at, delivered_at is not None))
    findings = [
        _unconsumed_finding(asked, tenant_id, found)
        for tenant_id, found in waiting.items()
        if asked.settings.of(tenant_id).enabled
    ]
    return Verdict(findings)


def _unconsumed_finding(asked: Asked, tenant_id: int, found: list[tuple[datetime, bool]]) -> Finding:
    setting, fetched = asked.settings.of(tenant_id), sum(delivered for _, delivered in found)
    oldest = shown.duration(asked.now - min(at for at, _ in found))
    number = "A decision was" if len(found) == 1 else f"{shown.count(len(found))} decisions were"
    evidence = Evidence(
        figures=[
            Figure("Not taken up", shown.count(len(found)), "decisions"),
            Figure("Fetched", shown.count(fetched), "by an agent that then did nothing with it"),
            Figure("The oldest", oldest, "since it could be fetched"),
        ],
        facts=[
            "The agent's process may be gone. Started again with its state, it asks for what was decided."
        ],
    )
    return Finding(
        tenant_id=tenant_id,
        rule=RuleKind.UNCONSUMED,
        title=f"{number} not taken up by any agent, the oldest for {oldest}.",
        severity=setting.severity,
        evidence=evidence.as_json(),
        query={"list": "review", "state": _states(fetched, len(found))},
    )


def _states(fetched: int, every: int) -> str:
    """Return the queue's state that shows them: fetched ones are delivered."""
    if 0 < fetched < every:
        return ANY
    return CheckpointState.DELIVERED if fetched else CheckpointState.DECIDED


@dataclass(frozen=True, slots=True)
class _Reviewed:
    """Reviewed stops of one detector: recently and before."""

    recent: int
    recent_false: int
    before: int
    before_false: int


def check_precision(asked: Asked) -> Verdict:
    """Find detectors whose stops are marked as false more often than before, by tenant."""
    findings: list[Finding] = []
    holding, fine = set[Subject](), set[Subject]()
    for (tenant_id, detector), found in _reviewed(asked.window).items():
        setting, limit = asked.settings.of(tenant_id), asked.settings.of(tenant_id)["percent"] / 100
        if not setting.enabled or found.recent < setting["reviews"]:
            continue
        share = found.recent_false / found.recent
        was = found.before_false / found.before if found.before >= setting["reviews"] else 0.0
        # Falling, and not by chance: a detector that always was this bad has been told of before.
        if share >= limit and wilson(found.recent_false, found.recent)[0] > was:
            findings.append(_precision_finding(asked, tenant_id, detector, found))
        elif share >= limit * _HOLDS:
            holding.add((tenant_id, detector))
        else:
            fine.add((tenant_id, detector))
    return Verdict(findings, holding, fine)


def _reviewed(until: datetime) -> dict[tuple[int, str], _Reviewed]:
    recent, false = Q(at__gt=until - RECENT), Q(verdict=StopVerdict.FALSE_STOP)
    rows = (
        StopReview.objects.filter(at__gt=until - RECENT - BEFORE, at__lte=until)
        .values_list("tenant_id", "detector")
        .annotate(
            recent=Count("id", filter=recent),
            recent_false=Count("id", filter=recent & false),
            before=Count("id", filter=~recent),
            before_false=Count("id", filter=~recent & false),
        )
        .order_by()
    )
    return {(tenant_id, detector): _Reviewed(*counts) for tenant_id, detector, *counts in rows}


def _precision_finding(asked: Asked, tenant_id: int, detector: str, found: _Reviewed) -> Finding:
    setting, name = asked.settings.of(tenant_id), clause(detector)
    share = found.recent_false / found.recent
    low, high = wilson(found.recent_false, found.recent)
    before = (
        f"{shown.share(found.before_false / found.before)} before" if found.before else "none reviewed before"
    )
    evidence = Evidence(
        figures=[
            Figure(
                "False stops, 14 days",
                shown.share(share),
                f"{found.recent_false:,} of {found.recent:,} reviewed; 95 % between {shown.share(low)} and"
                f" {shown.share(high)}",
            ),
            Figure("90 days before", before, f"{found.before_false:,} of {found.before:,} reviewed"),
        ],
        facts=["Only reviewed stops count. A cap that fits completed tasks better may be the answer."],
    )
    return Finding(
        tenant_id=tenant_id,
        rule=RuleKind.PRECISION,
        subject=detector,
        title=(
            f"{found.recent_false:,} of {found.recent:,} reviewed stops by “{name}” were false"
            f" ({shown.share(share)}) in 14 days; {before}."
        ),
        severity=setting.severity,
        evidence=evidence.as_json(),
        query={"reason": detector, "review": StopVerdict.FALSE_STOP, "range": "14d"},
    )
