"""What went wrong and who looks after it: incidents with their log, rules as people set them, silences."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from guardops.tenants.audit import audited
from guardops.tenants.models import Tenant
from runs.alerts.querysets import IncidentQuerySet, SilenceQuerySet
from runs.choices import IncidentState, RuleKind, Severity, Transition

from .live import short_texts
from .run import text

MAX_SUBJECT = 300
MAX_TITLE = 500
MAX_NOTE = 2_000
MAX_REASON = 300


class Incident(models.Model):
    """Something that one rule found about one subject, from when it began until it was over.

    Without a tenant it concerns the installation, and operators see it. ``subject`` tells apart what one rule
    finds in one tenant: a job type, a source, a detector; empty where there is only one. Every transition
    adds one to ``version`` and happens only on the version that its author saw. Written by
    `runs.alerts.incidents` alone.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    rule = models.CharField(max_length=24, choices=RuleKind)
    subject = text()
    job_type = text()
    release = text()
    title = models.TextField()  # a sentence
    severity = models.CharField(max_length=16, choices=Severity)
    state = models.CharField(max_length=16, choices=IncidentState, default=IncidentState.OPEN)
    version = models.IntegerField(default=1)
    opened_at = models.DateTimeField()
    last_at = models.DateTimeField()  # when its rule last found it
    window = models.DateTimeField(null=True)  # the end of the last window in which its rule found it
    clear = models.SmallIntegerField(default=0)  # windows in a row in which its rule did not
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    assigned_to = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    resolved_how = text()  # in words: "back to usual", "no runs"
    reopened = models.IntegerField(default=0)  # times
    evidence = models.JSONField(default=dict)  # `runs.alerts.evidence`: the chart as it was when it fired
    query = models.JSONField(default=dict)  # the filters of the runs list that show its runs

    objects = IncidentQuerySet.as_manager()

    class Meta:
        db_table = "incident"
        indexes = [
            # The page of incidents, the newest first, and what a tenant has open.
            models.Index(fields=["tenant", "-opened_at", "-id"], name="incident_newest"),
            # The last one of a subject: does it reopen?
            models.Index(fields=["rule", "tenant", "subject", "-opened_at"], name="incident_last"),
        ]
        constraints = [
            # One open incident a rule and subject, whoever evaluates; and how evaluation finds them.
            models.UniqueConstraint(
                fields=["rule", "tenant", "subject"],
                condition=~Q(state=IncidentState.RESOLVED),
                name="incident_one_open",
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(state=IncidentState.RESOLVED, resolved_at__isnull=False)
                | (~Q(state=IncidentState.RESOLVED) & Q(resolved_at=None)),
                name="incident_resolved_when",
            ),
            models.CheckConstraint(
                condition=Q(state__in=IncidentState.values, rule__in=RuleKind.values)
                & Q(severity__in=Severity.values),
                name="incident_words_known",
            ),
            short_texts(
                "incident_texts_short",
                subject=MAX_SUBJECT,
                job_type=128,
                release=257,
                title=MAX_TITLE,
                resolved_how=MAX_REASON,
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def is_open(self) -> bool:
        """Say whether it is not over yet; an acknowledged one is not."""
        return self.state != IncidentState.RESOLVED


class IncidentStep(models.Model):
    """One line of an incident's log. Append-only; ``version`` is the incident's after it."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="steps", db_index=False)
    transition = models.CharField(max_length=16, choices=Transition)
    version = models.IntegerField()
    at = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    to = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    note = text()
    silenced = models.BooleanField(default=False)  # nobody was told, since a silence covered it

    class Meta:
        db_table = "incident_step"
        ordering = ["id"]
        indexes = [models.Index(fields=["incident", "id"], name="incident_step_log")]
        constraints = [
            # No two transitions of one version: a notification of each is sent once.
            models.UniqueConstraint(
                fields=["incident", "version"],
                condition=~Q(transition=Transition.NOTED),
                name="incident_step_once",
            ),
            models.CheckConstraint(
                condition=Q(transition__in=Transition.values), name="incident_step_transition_known"
            ),
            models.CheckConstraint(
                condition=LessThanOrEqual(Length("note"), MAX_NOTE), name="incident_step_note_short"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.transition} {self.version}"


@audited("RuleEvent")
class Rule(models.Model):
    """What somebody set differently from a rule's default, in a tenant or in one of its job types.

    Without a tenant it is a rule of the installation. ``parameters`` holds only those of `runs.alerts.rules`
    that differ. Written by `runs.alerts.setting` alone.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    rule = models.CharField(max_length=24, choices=RuleKind)
    job_type = text()  # empty: all of them
    enabled = models.BooleanField(default=True)
    severity = models.CharField(max_length=16, choices=Severity)
    parameters = models.JSONField(default=dict)
    version = models.IntegerField(default=1)
    at = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        db_table = "alert_rule"
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "rule", "job_type"], name="alert_rule_once", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(rule__in=RuleKind.values, severity__in=Severity.values),
                name="alert_rule_words_known",
            ),
            short_texts("alert_rule_texts_short", job_type=128),
        ]

    def __str__(self) -> str:
        return f"{self.get_rule_display()} {self.job_type}".strip()


@audited("SilenceEvent", exclude=["settled_at"])
class Silence(models.Model):
    """Nobody is told of the incidents that it covers, until its end; they open and resolve all the same.

    An empty ``rule`` or ``subject`` means any. What is open at its end is told then, once (``settled_at``).
    Without a tenant it covers incidents of the installation. Written by `runs.alerts.silences` alone.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    rule = models.CharField(max_length=24, choices=RuleKind, blank=True, default="")
    subject = text()
    reason = models.TextField()
    until = models.DateTimeField()
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    ended_at = models.DateTimeField(null=True)  # by a person, before its time
    ended_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    settled_at = models.DateTimeField(null=True)  # what it covered has been told

    objects = SilenceQuerySet.as_manager()

    class Meta:
        db_table = "silence"
        indexes = [
            # Those that hold or are to be settled, a tenant's and all.
            models.Index(fields=["tenant", "until"], name="silence_unsettled", condition=Q(settled_at=None)),
            models.Index(fields=["tenant", "-created_at"], name="silence_newest"),  # the page of silences
        ]
        constraints = [
            models.CheckConstraint(condition=Q(until__gt=F("created_at")), name="silence_ends_later"),
            models.CheckConstraint(
                condition=Q(rule="") | Q(rule__in=RuleKind.values), name="silence_rule_known"
            ),
            models.CheckConstraint(
                condition=LessThanOrEqual(Length("subject"), MAX_SUBJECT)
                & LessThanOrEqual(Length("reason"), MAX_REASON)
                & ~Q(reason=""),
                name="silence_texts_short",
            ),
        ]

    def __str__(self) -> str:
        return self.reason


class Evaluation(models.Model):
    """How far a rule has been judged: a row each rule, moved with the incidents of the same window."""

    rule = models.CharField(max_length=24, choices=RuleKind, primary_key=True)
    window = models.DateTimeField(null=True)  # the end of the last window that was judged
    at = models.DateTimeField()  # when
    since = models.DateTimeField()  # from when on it has been judged without a gap
    error = text()  # why the last one failed, empty where it did not

    class Meta:
        db_table = "alert_evaluation"

    def __str__(self) -> str:
        return f"{self.rule} to {self.window}"
