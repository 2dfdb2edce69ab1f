"""Policies of job types: documents of what differs from the level above, in immutable versions."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from guardops.tenants.audit import audited
from guardops.tenants.models import Organisation, Tenant
from policies.querysets import JobPolicyQuerySet

from .fields import PUBLISHED, text

MAX_JOB_TYPE = 128
MAX_NOTE = 2_000


@audited("JobPolicyEvent")
class JobPolicy(models.Model):
    """The policy of a job type in a tenant, or in a whole organisation where ``tenant`` is empty.

    An empty ``job_type`` is the defaults of all. ``version`` is the number of the version in force.
    """

    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="+")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    job_type = text(db_collation="C")
    version = models.IntegerField()

    objects = JobPolicyQuerySet.as_manager()

    class Meta:
        db_table = "job_policy"
        triggers = [PUBLISHED]
        constraints = [
            # Serves the composition of bundles as well: all rows of an organisation.
            models.UniqueConstraint(
                fields=["organisation", "tenant", "job_type"], name="job_policy_once", nulls_distinct=False
            ),
            models.CheckConstraint(condition=Q(version__gte=1), name="job_policy_version_counts"),
            models.CheckConstraint(
                condition=LessThanOrEqual(Length("job_type"), MAX_JOB_TYPE), name="job_policy_job_type_short"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job_type or 'defaults'} of {self.tenant or self.organisation}"


class PolicyVersion(models.Model):
    """One published version of a policy. It is never changed: rolling back publishes its document anew."""

    policy = models.ForeignKey(JobPolicy, on_delete=models.CASCADE, related_name="versions")
    number = models.IntegerField()
    document = models.JSONField()  # as guardops.guard.bundle describes it
    note = text()
    until = models.DateTimeField(null=True, blank=True)  # then the version before it holds again
    restored_from = models.IntegerField(null=True, blank=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField()

    class Meta:
        db_table = "policy_version"
        triggers = [PUBLISHED]
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["policy", "number"], name="policy_version_once"),
            models.CheckConstraint(
                condition=LessThanOrEqual(Length("note"), MAX_NOTE), name="policy_version_note_short"
            ),
        ]

    def __str__(self) -> str:
        return f"version {self.number} of {self.policy}"
