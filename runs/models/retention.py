"""What retention has done: a row each time it ran, and from when on runs are still there."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from guardops.tenants.audit import audited
from guardops.tenants.models import Tenant

from .run import text


class RetentionRun(models.Model):
    """One run of retention, kept for 90 days. Written by `runs.retention` alone.

    Without ``ended_at`` it is at work, as far as ``progress`` says, or its process died.
    """

    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    progress = text()
    days = ArrayField(models.DateField(), default=list)  # whole UTC days of run ids that were dropped
    postponed = ArrayField(models.DateField(), default=list)  # days that are due and wait for fold or a lock
    runs = models.BigIntegerField(default=0)  # deleted one by one: an organisation keeps its own for less
    beside = models.BigIntegerField(default=0)  # rows that stood beside runs: ids, sources, completed tasks
    bytes_freed = models.BigIntegerField(default=0)  # by whole days; PostgreSQL uses the room of rows again
    finished = models.BooleanField(default=False)  # nothing that is due was left for the next one
    error = text()

    class Meta:
        db_table = "retention_run"
        get_latest_by = "started_at"
        indexes = [models.Index(fields=["-started_at"], name="retention_run_newest")]  # the page of storage


@audited("RunHorizonEvent")
class RunHorizon(models.Model):
    """Runs placed before ``kept_from`` (a UTC midnight) are gone, in part or as a whole.

    One row for the installation, without a tenant, and one for each tenant whose organisation keeps runs for
    less. It is moved before anything is deleted, so that the audit trail names every deletion.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, related_name="+", db_index=False)
    kept_from = models.DateTimeField()

    class Meta:
        db_table = "run_horizon"
        constraints = [
            models.UniqueConstraint(fields=["tenant"], name="run_horizon_once", nulls_distinct=False)
        ]

    def __str__(self) -> str:
        return f"{self.tenant or 'installation'} from {self.kept_from}"
