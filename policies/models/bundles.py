"""What guards pull and who pulled it: revisions, the changes that made them, secrets, the fleet."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from guardops.tenants.audit import audited
from guardops.tenants.models import Organisation, Tenant
from policies.choices import ChangeKind
from policies.querysets import GuardInstanceQuerySet

from .fields import IMMUTABLE, PUBLISHED, text


class Change(models.Model):
    """One edit, and how far it has reached the bundles of the tenants that it concerns.

    ``tenant`` is empty for an edit of an organisation, ``organisation`` too for one of everybody.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=16, choices=ChangeKind)
    summary = models.TextField()
    organisation = models.ForeignKey(
        Organisation, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField()
    total = models.IntegerField()  # tenants
    done = models.IntegerField(default=0)
    published = models.IntegerField(default=0)  # of those done, how many got a new revision
    reached = models.IntegerField(default=0)  # the last tenant's id; they are gone through in this order
    failure = text()  # why a tenant's bundle could not be published, with its slug
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "policy_change"
        indexes = [
            # What goes on with changes that are under way.
            models.Index(fields=["created_at"], name="policy_change_open", condition=Q(finished_at=None)),
            # A tenant's or an organisation's last changes, for "981 of 1,000 applied" beside an edit.
            models.Index(fields=["organisation", "tenant", "-created_at"], name="policy_change_recent"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(done__gte=0, done__lte=F("total"), published__gte=0, published__lte=F("done")),
                name="policy_change_counts",
            )
        ]

    def __str__(self) -> str:
        return self.summary


class BundleRevision(models.Model):
    """What a tenant's guards were told at one revision, byte for byte."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    revision = models.BigIntegerField()
    epoch = models.CharField(max_length=16)
    content_hash = models.CharField(max_length=80)
    body = models.BinaryField()  # gzipped
    change = models.ForeignKey(Change, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        db_table = "bundle_revision"
        triggers = [PUBLISHED, IMMUTABLE]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "revision"], name="bundle_revision_once"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} r{self.revision}"


@audited("SigningSecretEvent", exclude=["secret"])
class SigningSecret(models.Model):
    """What a tenant's decisions are signed with; its guards learn it from the bundle."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    kid = models.CharField(max_length=16)
    secret = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    not_after = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "signing_secret"
        triggers = [PUBLISHED]
        constraints = [models.UniqueConstraint(fields=["tenant", "kid"], name="signing_secret_once")]

    def __str__(self) -> str:
        return self.kid


class Epoch(models.Model):
    """The lineage of the database: one row, replaced when the database turns out to be a restored one."""

    only = models.BooleanField(primary_key=True, default=True)
    name = models.CharField(max_length=16)
    system_identifier = models.BigIntegerField()
    since = models.DateTimeField()

    class Meta:
        db_table = "policy_epoch"
        constraints = [models.CheckConstraint(condition=Q(only=True), name="policy_epoch_single")]

    def __str__(self) -> str:
        return self.name


class GuardInstance(models.Model):
    """A guard's process, as its pulls show it. Written in batches by the gate, every few seconds."""

    pk = models.CompositePrimaryKey("tenant_id", "instance")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    instance = models.UUIDField()
    version = text()  # of the guard's package
    applied_epoch = text()
    applied_revision = models.BigIntegerField(default=0)
    applied_hash = text()
    source = text()  # server, file or builtin
    age_s = models.IntegerField(default=0)  # of the bundle in force, as the guard counts
    rejected_revision = models.BigIntegerField(null=True, blank=True)
    reject_code = text()
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()

    objects = GuardInstanceQuerySet.as_manager()

    class Meta:
        db_table = "guard_instance"
        indexes = [models.Index(fields=["tenant", "-last_seen"], name="guard_instance_seen")]

    def __str__(self) -> str:
        return str(self.instance)
