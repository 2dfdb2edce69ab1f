"""Signs of life of GuardOps' own processes."""

from __future__ import annotations

from django.db import models

from .run import text


class Pulse(models.Model):
    """When something that has to happen every minute last happened, and last went well.

    ``beat`` is written by a worker that beat has woken, so it stands for broker, beat and worker together;
    ``heartbeat`` says how the outside watchdog was called. Written by `runs.health.pulse` alone.
    """

    name = models.TextField(primary_key=True, db_collation="C")
    at = models.DateTimeField()
    well_at = models.DateTimeField(null=True)
    error = text()  # why the last one failed, empty where it did not

    class Meta:
        db_table = "pulse"

    def __str__(self) -> str:
        return self.name
