"""Whom GuardOps tells, and the outbox of what it has told and is about to tell."""

from __future__ import annotations

import pghistory
import pgtrigger
from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.lookups import GreaterThan

from guardops.tenants.audit import audited
from guardops.tenants.models import Organisation, Tenant
from runs.choices import ChannelKind, NotificationState, Severity, SubjectKind
from runs.notify.querysets import ChannelQuerySet, NotificationQuerySet

from .live import short_texts
from .run import text

MAX_NAME = 128
MAX_DESTINATION = 300
MAX_GROUP_S = 900
MAX_REPEAT_H = 168
MAX_SAID = 500
MAX_OUTCOME = 500


@audited(
    "ChannelEvent",
    exclude=["secret", "version"],
    extra=[pghistory.UpdateEvent("secret", condition=pgtrigger.AnyChange("secret"))],
)
class Channel(models.Model):
    """Where a tenant, an organisation (no tenant) or the installation (no organisation) is told things.

    ``secret`` is the address with its tokens, encrypted (`runs.notify.secrets`); ``destination`` is what
    pages show of it. A removed channel keeps its deliveries and loses its secret. Written by
    `runs.notify.channels` alone.
    """

    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, null=True, related_name="+")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+")
    name = models.TextField(db_collation="C")
    kind = models.CharField(max_length=16, choices=ChannelKind)
    destination = text()
    secret = models.BinaryField(max_length=16_384)
    incidents = models.BooleanField(default=True)
    severity = models.CharField(
        max_length=16, choices=Severity, default=Severity.WARNING
    )  # and what is above
    endings = models.BooleanField(default=True)  # it is told as well that an incident is over
    decisions = models.BooleanField(default=False)  # decisions on checkpoints, as guards get them
    group_s = models.SmallIntegerField(default=20)  # incidents within so many seconds go in one message
    repeat_h = models.SmallIntegerField(default=4)  # hours until an open incident is told again; 0: never
    enabled = models.BooleanField(default=True)
    version = models.IntegerField(default=1)  # counts the edits, so that none is lost to another
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)

    objects = ChannelQuerySet.as_manager()

    class Meta:
        db_table = "channel"
        constraints = [
            models.CheckConstraint(
                condition=Q(tenant=None) | Q(organisation__isnull=False), name="channel_tenant_of"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=ChannelKind.values, severity__in=Severity.values),
                name="channel_words_known",
            ),
            models.CheckConstraint(
                condition=Q(decisions=False) | Q(kind=ChannelKind.WEBHOOK), name="channel_decisions_signed"
            ),
            models.CheckConstraint(
                condition=Q(group_s__range=(0, MAX_GROUP_S), repeat_h__range=(0, MAX_REPEAT_H)),
                name="channel_times_bounded",
            ),
            models.CheckConstraint(
                condition=Q(removed_at__isnull=False)
                | Q(
                    GreaterThan(
                        Func(F("secret"), function="octet_length", output_field=models.IntegerField()), 0
                    )
                ),
                name="channel_has_address",
            ),
            models.CheckConstraint(condition=~Q(name=""), name="channel_named"),
            short_texts("channel_texts_short", name=MAX_NAME, destination=MAX_DESTINATION),
        ]

    def __str__(self) -> str:
        return self.name


class Notification(models.Model):
    """One thing that one channel is told once: a transition of an incident, a decision, a test.

    The outbox: written in the transaction of what it tells, sent by `runs.notify.relay` at least once.
    ``message`` is the id that the receiver sees, the same at each try and for all that go in one message. It
    is rendered when it is sent; what nobody needs to know any more is dropped then. Kept for 90 days.
    """

    channel = models.ForeignKey(
        Channel, on_delete=models.CASCADE, related_name="notifications", db_index=False
    )
    kind = models.CharField(max_length=16, choices=SubjectKind)
    subject = models.UUIDField()  # the id of the incident, of the decision, or of the test itself
    transition = models.TextField(db_collation="C")
    version = models.IntegerField(default=1)  # of the subject after that transition; of repeats their number
    state = models.CharField(max_length=16, choices=NotificationState, default=NotificationState.WAITING)
    created_at = models.DateTimeField()
    due_at = models.DateTimeField()
    message = models.UUIDField(null=True)
    attempts = models.SmallIntegerField(default=0)  # counted before each, so that a killed one counts too
    claimed_until = models.DateTimeField(null=True)  # a relay sends it; past that, another one may
    ended_at = models.DateTimeField(null=True)
    said = text()  # its first line, as it was sent
    outcome = text()  # what the receiver answered last, or why it was not sent

    objects = NotificationQuerySet.as_manager()

    class Meta:
        db_table = "notification"
        indexes = [
            # What the relay takes next, and whether anything is stuck.
            models.Index(
                fields=["due_at", "id"], name="notification_due", condition=Q(state=NotificationState.WAITING)
            ),
            models.Index(fields=["channel", "-id"], name="notification_log"),  # a channel's page
            BrinIndex(fields=["created_at"], name="notification_age"),  # what is old enough to go
        ]
        constraints = [
            # Never twice for one transition. Also what a channel was told of one incident.
            models.UniqueConstraint(
                fields=["channel", "kind", "subject", "transition", "version"], name="notification_once"
            ),
            models.CheckConstraint(
                condition=Q(state__in=NotificationState.values, kind__in=SubjectKind.values),
                name="notification_words_known",
            ),
            models.CheckConstraint(
                condition=Q(state=NotificationState.WAITING, ended_at=None)
                | ~Q(state=NotificationState.WAITING) & Q(ended_at__isnull=False, claimed_until=None),
                name="notification_ends_once",
            ),
            short_texts("notification_texts_short", transition=32, said=MAX_SAID, outcome=MAX_OUTCOME),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject} {self.transition}"
