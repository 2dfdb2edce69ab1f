"""Stop orders: a tenant, job type, task or run makes no further call until the order is lifted."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from guardops.tenants.audit import audited
from guardops.tenants.models import Tenant
from policies.choices import StopScope
from policies.querysets import StopQuerySet

from .fields import PUBLISHED, text

MAX_REASON = 300


@audited("StopEvent")
class Stop(models.Model):
    """A person's order; ``name`` is the job type, root task id or run id, empty for the whole tenant."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+", db_index=False)
    scope = models.CharField(max_length=16, choices=StopScope)
    name = text(db_collation="C")
    reason = models.TextField()
    expires_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField()
    lifted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    lifted_at = models.DateTimeField(null=True, blank=True)

    objects = StopQuerySet.as_manager()

    class Meta:
        db_table = "stop_order"
        triggers = [PUBLISHED]
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "scope", "name"], name="stop_order_once", condition=Q(lifted_at=None)
            ),
            models.CheckConstraint(
                condition=Q(scope=StopScope.TENANT, name="") | (~Q(scope=StopScope.TENANT) & ~Q(name="")),
                name="stop_order_named",
            ),
            models.CheckConstraint(
                condition=Q(expires_at=None) | Q(expires_at__gt=F("created_at")),
                name="stop_order_expires_later",
            ),
            models.CheckConstraint(
                condition=LessThanOrEqual(Length("name"), 128)
                & LessThanOrEqual(Length("reason"), MAX_REASON)
                & ~Q(reason=""),
                name="stop_order_texts_short",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_scope_display()} {self.name}".strip()
