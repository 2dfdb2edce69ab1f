"""Organisations and their tenants: the only place that writes them."""

from __future__ import annotations

from collections.abc import Collection

from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.db.models import F

from .actors import System, acting
from .errors import EditedMeanwhile
from .models import Organisation, Tenant, User


def create_organisation(
    *, slug: str, name: str, actor: User | System, time_zone: str = "UTC"
) -> Organisation:
    """Make an organisation; raises ValidationError for a slug that is taken or no slug, and for no name."""
    organisation = Organisation(slug=slug, name=name, time_zone=time_zone)
    organisation.full_clean()
    with acting(actor):
        organisation.save(force_insert=True)
    return organisation


def update_organisation(
    organisation: Organisation,
    *,
    version: int,
    name: str,
    time_zone: str,
    retention_days: int | None,
    allowed_domains: Collection[str],
    actor: User | System,
) -> None:
    """Change what an organisation decides for all its tenants.

    Args:
        organisation: whose settings; after the call it holds them.
        version: the one that was edited.
        retention_days: after how many days runs are deleted, 1 to 3650; None for the installation's own.
        allowed_domains: hosts as ``guard.domains.normal_host`` writes them.

    Raises EditedMeanwhile where somebody else saved since ``version``, ValidationError for what can't be.
    """
    draft = Organisation(
        slug=organisation.slug,
        name=name,
        time_zone=time_zone,
        retention_days=retention_days,
        allowed_domains=sorted(set(allowed_domains)),
    )
    draft.full_clean(validate_unique=False, exclude={"slug"})
    fields = ["name", "time_zone", "retention_days", "allowed_domains"]
    with acting(actor):
        # Compare and set: an edit of something that has changed since is told, not written.
        current = Organisation.objects.filter(pk=organisation.pk, version=version)
        if not current.update(version=F("version") + 1, **{name: getattr(draft, name) for name in fields}):
            raise EditedMeanwhile("Somebody else has saved these settings since you opened them.")
    organisation.refresh_from_db()


def create_tenant(*, organisation: Organisation, slug: str, name: str, actor: User | System) -> Tenant:
    """Make a tenant; slugs are unique in the installation and stay. Raises ValidationError as above."""
    tenant = Tenant(organisation=organisation, slug=slug, name=name)
    tenant.full_clean()
    try:
        with acting(actor):
            tenant.save(force_insert=True)
    except IntegrityError:  # somebody took the slug between the question and the answer
        raise ValidationError({"slug": "Tenant with this Slug already exists."}) from None
    return tenant


def rename_tenant(tenant: Tenant, name: str, *, actor: User | System) -> None:
    """Give a tenant another name; raises ValidationError for none and for one that is too long."""
    tenant.name = name
    tenant.clean_fields(exclude={field.name for field in Tenant._meta.fields} - {"name"})
    with acting(actor):
        tenant.save(update_fields=["name"])


def home_zone(user: User) -> str:
    """Return the time zone of the organisation that a person works in; empty for none, or several."""
    zones = Organisation.objects.filter(memberships__user=user).order_by("pk").distinct()[:2]
    found = [organisation.time_zone for organisation in zones]
    return found[0] if len(found) == 1 else ""
