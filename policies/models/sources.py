"""The blocklist: domains and tools that guards refuse, or limit to some calls a run."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import LessThanOrEqual

from guardops.guard.policy import BOUNDS
from guardops.tenants.audit import audited
from guardops.tenants.models import Organisation, Tenant
from policies.choices import BlockAction, Origin, SourceKind
from policies.querysets import BlockedSourceQuerySet

from .fields import PUBLISHED, text

MAX_NAME = 253
MAX_REASON = 300
MAX_NOTE = 2_000


@audited("BlockedSourceEvent")
class BlockedSource(models.Model):
    """A blocked source of a tenant, of an organisation (no tenant), or of everybody (no organisation)."""

    organisation = models.ForeignKey(
        Organisation, on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    kind = models.CharField(max_length=16, choices=SourceKind)
    name = models.TextField(db_collation="C")  # a domain as A-labels in lower case
    exact = models.BooleanField(default=False)  # only this host, not its subdomains
    action = models.CharField(max_length=16, choices=BlockAction, default=BlockAction.BLOCK)
    most = models.IntegerField(default=0)  # calls a run, where the action is limit
    reason = text()  # told to guards
    origin = models.CharField(max_length=16, choices=Origin, default=Origin.MANUAL)
    evidence = text()  # a path of ours: the run, checkpoint or source that led to it
    note = text()
    expires_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField()
    removed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    removed_at = models.DateTimeField(null=True, blank=True)

    objects = BlockedSourceQuerySet.as_manager()

    class Meta:
        db_table = "blocked_source"
        triggers = [PUBLISHED]
        constraints = [
            models.UniqueConstraint(
                fields=["organisation", "tenant", "kind", "name", "exact"],
                name="blocked_source_once",
                condition=Q(removed_at=None),
                nulls_distinct=False,
            ),
            models.CheckConstraint(
                condition=Q(tenant=None) | Q(organisation__isnull=False), name="blocked_source_tenant_of"
            ),
            models.CheckConstraint(
                condition=Q(most__gte=0, most__lte=BOUNDS["domain_cap"][1]), name="blocked_source_most_finite"
            ),
            # A path on this server and nothing else: it is a link on the page.
            models.CheckConstraint(
                condition=Q(evidence="") | Q(evidence__regex=r"^/([!-.0-[\]-~][ -~]*)?$"),
                name="blocked_source_evidence_ours",
            ),
            *(
                models.CheckConstraint(
                    condition=LessThanOrEqual(Length(field), most), name=f"blocked_source_{field}_short"
                )
                for field, most in (("name", MAX_NAME), ("reason", MAX_REASON), ("note", MAX_NOTE))
            ),
        ]

    def __str__(self) -> str:
        return self.name
