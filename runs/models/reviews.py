"""What reviewers think of stops: the labels that the quality of detectors is measured by."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import GreaterThan, LessThanOrEqual

from guardops.tenants.audit import audited
from guardops.tenants.models import Tenant
from runs.choices import StopVerdict

from .run import text

MAX_NOTE = 2_000
MAX_DETECTOR = 64


@audited("StopReviewEvent")
class StopReview(models.Model):
    """Whether it was right to stop a run, or in shadow mode to say that it would have been stopped.

    One row a run, the one that counts; changed and withdrawn ones are in the audit trail. It outlives its
    run, which retention drops. Written by `runs.review.stops` alone.
    """

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    run_id = models.UUIDField()
    verdict = models.CharField(max_length=16, choices=StopVerdict)
    detector = models.TextField(db_collation="C")  # the reason that is judged, as a run's halt_reason has it
    note = text()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField()

    class Meta:
        db_table = "stop_review"
        constraints = [
            # Serves the run's page, and the runs list by its filter ``review``.
            models.UniqueConstraint(fields=["tenant", "run_id"], name="stop_review_once"),
            models.CheckConstraint(
                condition=Q(verdict__in=StopVerdict.values), name="stop_review_verdict_known"
            ),
            models.CheckConstraint(
                condition=GreaterThan(Length("detector"), 0)
                & LessThanOrEqual(Length("detector"), MAX_DETECTOR),
                name="stop_review_detector_named",
            ),
            models.CheckConstraint(
                condition=LessThanOrEqual(Length("note"), MAX_NOTE), name="stop_review_note_short"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verdict} of {self.run_id}"
