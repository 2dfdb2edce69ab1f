"""Who is who: organisations, their tenants, people with roles, and the keys of machines."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from .choices import Role, Scope
from .querysets import ApiKeyQuerySet, TenantQuerySet


class User(AbstractUser):
    """A person. Operators run the installation and see across organisations."""

    is_operator = models.BooleanField(default=False)

    class Meta:
        db_table = "tenants_user"


class Organisation(models.Model):
    """A customer of the installation: it holds tenants and decides for all of them."""

    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=128)
    time_zone = models.CharField(max_length=64, default="UTC")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Tenant(models.Model):
    """Whose runs they are: the unit of policies, keys, counts and privacy."""

    id = models.AutoField(primary_key=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="tenants")
    slug = models.SlugField(max_length=64, unique=True)
    name = models.CharField(max_length=128)
    bundle_revision = models.BigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TenantQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    """A person's role in one tenant, or in every tenant of the organisation where ``tenant`` is empty."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="memberships")
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "organisation", "tenant"], name="membership_once", nulls_distinct=False
            ),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} {self.role} of {self.tenant or self.organisation}"


class ApiKey(models.Model):
    """A machine's key ``go_<prefix>_<secret>``: only the SHA-256 of the whole is kept."""

    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="api_keys")
    tenants = models.ManyToManyField(Tenant, related_name="api_keys")
    name = models.CharField(max_length=128)
    prefix = models.CharField(max_length=16, unique=True)
    digest = models.BinaryField(max_length=32)
    scopes = ArrayField(models.CharField(max_length=32, choices=Scope))
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"go_{self.prefix}_…"
