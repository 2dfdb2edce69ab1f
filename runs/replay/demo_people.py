"""The demo's people: an admin, a reviewer and a viewer, so that each role can be looked at."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.choices import Role
from guardops.tenants.models import Organisation, Tenant, User
from guardops.tenants.people import create_user, set_membership


@dataclass(frozen=True, slots=True)
class DemoPerson:
    """Somebody with one role in whole organisations, or in single tenants."""

    username: str
    role: Role
    organisations: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()


PEOPLE = (
    DemoPerson("demo-admin", Role.ADMIN, organisations=("acme", "globex")),
    DemoPerson("demo-reviewer", Role.REVIEWER, organisations=("acme",)),
    DemoPerson("demo-viewer", Role.VIEWER, tenants=("acme-research", "globex-data")),
)


def make_people(say: Callable[[str], None]) -> None:
    """Make those of the demo's people who are missing; ``say`` hears each password, which is kept nowhere."""
    for person in PEOPLE:
        if User.objects.filter(username=person.username).exists():
            continue
        password = secrets.token_urlsafe(9)
        with acting(SYSTEM):
            user = create_user(username=person.username, password=password, actor=SYSTEM)
            for organisation in Organisation.objects.filter(slug__in=person.organisations):
                set_membership(user=user, organisation=organisation, role=person.role, actor=SYSTEM)
            for tenant in Tenant.objects.filter(slug__in=person.tenants).select_related("organisation"):
                set_membership(
                    user=user,
                    organisation=tenant.organisation,
                    tenant=tenant,
                    role=person.role,
                    actor=SYSTEM,
                )
        where = ", ".join(person.organisations or person.tenants)
        say(f"Log in as {person.username} with {password} ({person.role.label.lower()} in {where}).")
