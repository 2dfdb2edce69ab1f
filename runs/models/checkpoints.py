"""What waits for a person, and what people decided."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q

from guardops.guard.events import MAX_COST
from guardops.tenants.audit import audited
from guardops.tenants.models import Tenant
from runs.checkpoints.querysets import CheckpointQuerySet, DecisionQuerySet
from runs.choices import CheckpointState, DecisionAction, LastStep, OnTimeout

from .fields import PlainJSONField
from .live import MAX_COUNT, TIMES, short_texts
from .run import text

MAX_NOTE = 4_096
MAX_REASON = 4_096  # characters of a decision's reason, of an answer, and of each text of a change
WAITING = (CheckpointState.OPEN, CheckpointState.CLAIMED)


def _person() -> models.ForeignKey[Any, Any]:
    return models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )


class Checkpoint(models.Model):
    """A run that was handed to a person, with all they need to decide.

    Made by ingest (``checkpoint.opened``), moved by the verbs of `runs.checkpoints` alone. ``version`` counts
    what somebody must know before deciding: every transition but the end of a lease. It outlives its run.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    checkpoint_id = models.UUIDField()
    run_id = models.UUIDField(null=True)  # as sent, or the one that stands for ``external_id``
    external_id = text()  # the sender's own id, empty where it sent a run_id
    root_task_id = text()  # empty where the run is the root of its own task
    parent_run_id = models.UUIDField(null=True)
    attempt = models.SmallIntegerField(default=1)
    job_type = text()
    agent = text()
    release = text()  # "release" or "release+prompt_version"
    reason = text()  # canonical code, an unknown one verbatim
    family = text()
    question = text()
    artifact_digest = text()  # what a decision is bound to
    steps = models.IntegerField(default=0)
    cost = models.DecimalField(max_digits=14, decimal_places=6, default=0)  # spent so far
    sub_agents = models.IntegerField(default=0)  # that are still at work
    uncertain = models.BooleanField(default=False)  # a write of unknown outcome has to be reconciled
    approves = models.BooleanField(default=False)  # a refused call waits for approval
    opened_at = models.DateTimeField()  # by the guard, or its receipt where the clock is suspect
    received_at = models.DateTimeField()
    due_at = models.DateTimeField()  # by when somebody should have decided: the job type's SLA
    expires_at = models.DateTimeField()  # then ``on_timeout`` holds
    on_timeout = text(choices=OnTimeout)
    state = text(choices=CheckpointState)
    version = models.IntegerField(default=1)
    claimed_by = _person()
    claimed_at = models.DateTimeField(null=True)
    lease_until = models.DateTimeField(null=True)  # a claim past it counts as none
    escalated_at = models.DateTimeField(null=True)  # when it was found to be over its SLA
    last_did = text(choices=LastStep)  # the last transition, who made it (null: GuardOps or a guard), when
    last_by = _person()
    last_at = models.DateTimeField()
    body_digest = models.BinaryField(max_length=16)
    detail = PlainJSONField(default=dict)  # `runs.checkpoints.packet.Packet`
    clock_suspect = models.BooleanField(default=False)
    sanitized = models.BooleanField(default=False)

    objects = CheckpointQuerySet.as_manager()

    decided: Decision | None = None
    """The decision that stands, where `runs.checkpoints.moving.fresh` has read it."""

    class Meta:
        db_table = "checkpoint"
        indexes = [
            # The queue: what waits in a tenant, the most urgent first; and how much waits.
            models.Index(fields=["tenant", "state", "due_at", "id"], name="checkpoint_queue"),
            # The newest of a tenant in any state, and what retention deletes.
            models.Index(fields=["tenant", "opened_at", "id"], name="checkpoint_opened"),
            # The checkpoints of a run, and of a task whose id is not a run's.
            models.Index(fields=["tenant", "run_id"], name="checkpoint_run", condition=~Q(run_id=None)),
            models.Index(
                fields=["tenant", "root_task_id"], name="checkpoint_task", condition=~Q(root_task_id="")
            ),
            # What the tasks look for: expired ones, leases that ended, SLAs that passed untold.
            models.Index(
                fields=["expires_at"], name="checkpoint_expires", condition=Q(state__in=["open", "claimed"])
            ),
            models.Index(fields=["lease_until"], name="checkpoint_lease", condition=Q(state="claimed")),
            models.Index(
                fields=["due_at"],
                name="checkpoint_due",
                condition=Q(state__in=["open", "claimed"], escalated_at=None),
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "checkpoint_id"], name="checkpoint_once"),
            models.CheckConstraint(
                condition=Q(state__in=CheckpointState.values)
                & Q(on_timeout__in=OnTimeout.values)
                & Q(last_did__in=LastStep.values),
                name="checkpoint_state_known",
            ),
            models.CheckConstraint(
                condition=(Q(state="claimed") & ~Q(lease_until=None) & ~Q(claimed_at=None))
                | (~Q(state="claimed") & Q(lease_until=None)),
                name="checkpoint_leased_while_claimed",
            ),
            models.CheckConstraint(
                condition=Q(steps__range=(0, MAX_COUNT))
                & Q(sub_agents__range=(0, MAX_COUNT))
                & Q(attempt__range=(1, 1_000))
                & Q(version__gte=1),
                name="checkpoint_counts_bounded",
            ),
            models.CheckConstraint(condition=Q(cost__range=(0, MAX_COST)), name="checkpoint_cost_bounded"),
            models.CheckConstraint(
                condition=Q(opened_at__range=TIMES) & Q(expires_at__range=TIMES) & Q(due_at__range=TIMES),
                name="checkpoint_times_bounded",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="checkpoint_reason_named"),
            short_texts(
                "checkpoint_texts_short",
                external_id=128,
                root_task_id=128,
                job_type=128,
                agent=128,
                release=257,
                reason=64,
                question=4_096,
                artifact_digest=80,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.checkpoint_id}"


@audited("DecisionEvent", exclude=["delivered_at", "alerted_at"])
class Decision(models.Model):
    """What was decided on a checkpoint, by a person, or by GuardOps where nobody did in time.

    ``id`` is the decision's id on the wire. ``deliver_at`` is the database's time: until then it can be
    undone, and nobody gets it. Written by `runs.checkpoints` alone.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    checkpoint = models.ForeignKey(
        Checkpoint, on_delete=models.CASCADE, related_name="decisions", db_index=False
    )
    action = text(choices=DecisionAction)
    reason = text()
    answer = text()
    change = models.JSONField(default=dict)  # `guardops.guard.decisions.DecisionChange`
    reconciled = models.JSONField(default=list)  # of `guardops.guard.decisions.Reconciled`
    tool = text()  # the approved call
    args_hash = text()
    artifact_digest = text()
    version = models.IntegerField()  # of the checkpoint that its author saw
    by = _person()  # null: GuardOps, because the checkpoint expired
    by_system = models.BooleanField(default=False)
    at = models.DateTimeField()
    deliver_at = models.DateTimeField()
    expires_at = models.DateTimeField()  # after it nobody may consume it
    undone_by = _person()
    undone_at = models.DateTimeField(null=True)
    delivered_at = models.DateTimeField(null=True)  # when a guard or a webhook got it first
    consumed_at = models.DateTimeField(null=True)
    attempt_id = models.UUIDField(null=True)  # the run that has the grant
    attempt = models.SmallIntegerField(null=True)  # its number
    alerted_at = models.DateTimeField(null=True)  # when it was found that nobody consumes it

    objects = DecisionQuerySet.as_manager()

    class Meta:
        db_table = "decision"
        indexes = [
            # All of a checkpoint, undone ones too.
            models.Index(fields=["checkpoint", "at"], name="decision_of"),
            # A tenant's, the newest first: what the quality page and alerts count.
            models.Index(fields=["tenant", "-at"], name="decision_newest"),
            # What is delivered to nobody, or consumed by nobody.
            models.Index(
                fields=["expires_at"],
                name="decision_unconsumed",
                condition=Q(consumed_at=None, undone_at=None),
            ),
            # The checkpoint that a run was resumed from.
            models.Index(
                fields=["tenant", "attempt_id"], name="decision_attempt", condition=~Q(attempt_id=None)
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["checkpoint"], name="decision_once", condition=Q(undone_at=None)),
            models.CheckConstraint(
                condition=Q(action__in=DecisionAction.values), name="decision_action_known"
            ),
            # Nothing resumes by itself.
            models.CheckConstraint(
                condition=Q(by_system=False) | Q(by=None, action__in=OnTimeout.values),
                name="decision_system_never_resumes",
            ),
            models.CheckConstraint(
                condition=Q(undone_at=None) | Q(delivered_at=None, consumed_at=None),
                name="decision_undone_undelivered",
            ),
            models.CheckConstraint(
                condition=Q(consumed_at=None, attempt_id=None, attempt=None)
                | ~Q(consumed_at=None) & ~Q(attempt_id=None) & ~Q(attempt=None),
                name="decision_granted_to_one",
            ),
            short_texts(
                "decision_texts_short",
                reason=MAX_REASON,
                answer=MAX_REASON,
                tool=128,
                args_hash=80,
                artifact_digest=80,
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.id}"


class CheckpointNote(models.Model):
    """What somebody wrote on a checkpoint; kept whatever becomes of it."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="notes", db_index=False)
    text = text()
    by = _person()
    at = models.DateTimeField()

    class Meta:
        db_table = "checkpoint_note"
        indexes = [models.Index(fields=["checkpoint", "at"], name="checkpoint_note_of")]
        constraints = [
            models.CheckConstraint(condition=~Q(text=""), name="checkpoint_note_written"),
            short_texts("checkpoint_note_short", text=MAX_NOTE),
        ]

    def __str__(self) -> str:
        return f"note of {self.at:%Y-%m-%d}"
