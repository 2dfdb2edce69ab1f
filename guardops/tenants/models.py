"""Who is who: organisations, their tenants, people with roles, and the keys of machines."""

from __future__ import annotations

import pghistory
import pgtrigger
from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.functions import Now
from django.db.models.lookups import Exact

from .audit import audited
from .choices import Role, Scope
from .querysets import ApiKeyQuerySet, InvitationQuerySet, TenantQuerySet
from .validators import known_zone

SLUG = r"^[a-z0-9][a-z0-9_-]*$"
MAX_RETENTION_DAYS = 3_650
MAX_ALLOWED_DOMAINS = 500
MAX_VIEW_QUERY = 2_000  # characters
NO_SLUG = "Use lower-case letters, digits, - and _, and begin with a letter or digit."


@audited(
    "UserEvent",
    exclude=["password", "last_login"],
    extra=[
        pghistory.UpdateEvent("password", condition=pgtrigger.AnyChange("password")),
        pghistory.UpdateEvent("login", condition=pgtrigger.AnyChange("last_login")),
    ],
)
class User(AbstractUser):
    """A person. Operators run the installation and see across organisations."""

    is_operator = models.BooleanField(default=False)
    keyboard_shortcuts = models.BooleanField(default=True, db_default=True)

    class Meta:
        db_table = "tenants_user"


@audited("OrganisationEvent", exclude=["version"])
class Organisation(models.Model):
    """A customer of the installation: it holds tenants and decides for all of them.

    ``retention_days`` empty means the installation's. ``allowed_domains`` are hosts in their one spelling
    (``guard.domains.normal_host``). ``version`` counts the edits, so that none is lost to another.
    """

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=128)
    time_zone = models.CharField(max_length=64, default="UTC", validators=[known_zone])
    retention_days = models.PositiveSmallIntegerField(null=True, blank=True)
    allowed_domains = ArrayField(
        models.CharField(max_length=253), size=MAX_ALLOWED_DOMAINS, default=list, db_default=[], blank=True
    )
    version = models.PositiveIntegerField(default=1, db_default=1)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(retention_days=None)
                | Q(retention_days__gte=1, retention_days__lte=MAX_RETENTION_DAYS),
                name="organisation_retention_in_range",
            ),
            models.CheckConstraint(
                condition=Q(allowed_domains__len__lte=MAX_ALLOWED_DOMAINS),
                name="organisation_allowed_domains_few",
            ),
            models.CheckConstraint(
                condition=Q(slug__regex=SLUG), name="organisation_slug_plain", violation_error_message=NO_SLUG
            ),
        ]

    def __str__(self) -> str:
        return self.name


@audited("TenantEvent", exclude=["bundle_revision"])
class Tenant(models.Model):
    """Whose runs they are: the unit of policies, keys, counts and privacy."""

    id = models.AutoField(primary_key=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="tenants")
    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=128)
    bundle_revision = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now())

    objects = TenantQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=Q(slug__regex=SLUG), name="tenant_slug_plain", violation_error_message=NO_SLUG
            ),
            models.CheckConstraint(
                condition=Q(bundle_revision__gte=0, bundle_revision__lte=2**53),
                name="tenant_revision_in_range",
            ),
            # What memberships and keys refer to, so that neither crosses organisations.
            models.UniqueConstraint(fields=["id", "organisation"], name="tenant_of_organisation"),
        ]

    def __str__(self) -> str:
        return self.slug


@audited("MembershipEvent")
class Membership(models.Model):
    """A person's role in one tenant, or in every tenant of the organisation where ``tenant`` is empty."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="memberships"
    )
    role = models.CharField(max_length=16, choices=Role)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "organisation", "tenant"], name="membership_once", nulls_distinct=False
            ),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.role} of {self.tenant or self.organisation}"


@audited("ApiKeyEvent", exclude=["digest", "last_used_at"])
class ApiKey(models.Model):
    """A machine's key ``go_<prefix>_<secret>``: only the SHA-256 of the whole is kept."""

    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="api_keys")
    tenants = models.ManyToManyField(Tenant, through="ApiKeyTenant", related_name="api_keys")
    name = models.CharField(max_length=128)
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.BinaryField(max_length=32)
    scopes = ArrayField(models.CharField(max_length=32, choices=Scope))
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    # The key that this one takes over from; both work until that one's end.
    predecessor = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="successors"
    )

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(condition=Q(prefix__regex=r"^[0-9a-f]{12}$"), name="api_key_prefix_plain"),
            models.CheckConstraint(
                condition=Exact(
                    Func(F("digest"), function="octet_length", output_field=models.IntegerField()), 32
                ),
                name="api_key_digest_whole",
            ),
            models.CheckConstraint(
                condition=Q(scopes__contained_by=Scope.values, scopes__len__gte=1),
                name="api_key_scopes_known",
            ),
            models.CheckConstraint(
                condition=Q(expires_at=None) | Q(expires_at__gt=F("created_at")), name="api_key_expires_later"
            ),
            models.UniqueConstraint(fields=["id", "organisation"], name="api_key_of_organisation"),
            # Of two people who rotate a key at once, one does; who revoked the new key may rotate again.
            models.UniqueConstraint(
                fields=["predecessor"], condition=Q(revoked_at=None), name="api_key_one_successor"
            ),
        ]

    def __str__(self) -> str:
        return f"go_{self.prefix}_…"


@audited("ApiKeyTenantEvent")
class ApiKeyTenant(models.Model):
    """A tenant that a key covers; both are of the organisation, held by foreign keys of two columns."""

    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, related_name="+")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")
    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="+", db_index=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["api_key", "tenant"], name="api_key_tenant_once")]

    def __str__(self) -> str:
        return f"{self.api_key} covers {self.tenant}"


@audited("InvitationEvent", exclude=["digest"])
class Invitation(models.Model):
    """A role that waits for whoever opens its link, once; only the SHA-256 of the link's token is kept.

    ``invitee`` is who it is meant for, an e-mail address or a name, and binds nobody. Without ``tenant`` the
    role is one in the whole organisation.
    """

    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="invitations")
    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="invitations"
    )
    role = models.CharField(max_length=16, choices=Role)
    invitee = models.CharField(max_length=254)
    digest = models.BinaryField(max_length=32, unique=True)
    created_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    accepted_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    accepted_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        # The members page lists an organisation's invitations, the newest first.
        indexes = [models.Index(fields=["organisation", "-created_at"], name="invitation_newest")]
        constraints = [
            models.CheckConstraint(condition=Q(role__in=Role.values), name="invitation_role_known"),
            models.CheckConstraint(
                condition=Exact(
                    Func(F("digest"), function="octet_length", output_field=models.IntegerField()), 32
                ),
                name="invitation_digest_whole",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at")), name="invitation_expires_later"
            ),
            models.CheckConstraint(
                condition=Q(accepted_at=None) | Q(revoked_at=None), name="invitation_one_end"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.invitee} as {self.role} of {self.tenant or self.organisation}"


class Throttle(models.Model):
    """How often something was tried of late: by a name, by an address, or by a name from an address.

    Neither is kept, only a keyed hash of both. ``level`` rises by one with each try and leaks away with time.
    """

    digest = models.BinaryField(max_length=32, primary_key=True)
    level = models.FloatField(default=0)
    tried_at = models.DateTimeField()
    open_at = models.DateTimeField()
    succeeded_at = models.DateTimeField(null=True)
    kept_until = models.DateTimeField()

    class Meta:
        # The sweep deletes what need not be kept, the oldest first.
        indexes = [models.Index(fields=["kept_until"], name="throttle_kept_until")]
        constraints = [
            models.CheckConstraint(condition=Q(level__gte=0, level__lte=10_000), name="throttle_level_sane")
        ]

    def __str__(self) -> str:
        return f"{bytes(self.digest).hex()[:8]} at {self.level:.1f}"


class SavedView(models.Model):
    """A list as somebody wants to see it again: the query of its address, under a name of their own.

    ``page`` is a name in `guardops.tenants.list_pages`. It is theirs alone and changes nothing of a tenant,
    so no audit trail tells of it.
    """

    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="saved_views", db_index=False)
    page = models.CharField(max_length=32)
    name = models.CharField(max_length=64)
    query = models.CharField(max_length=MAX_VIEW_QUERY, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name"]
        constraints = [
            # Also the index of a list's menu: somebody's views of a page, by name.
            models.UniqueConstraint(fields=["owner", "page", "name"], name="saved_view_once"),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.page}"
