"""What a new installation starts with."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from django.db import connection

from .actors import SYSTEM, acting
from .choices import Role
from .models import User
from .organisations import create_organisation, create_tenant
from .people import create_user, set_membership

_LOCK = 4_701_001  # advisory lock: one first start at a time


@dataclass(frozen=True, slots=True)
class FirstLogin:
    """The first admin's name and password: to be printed once, since only its hash is kept."""

    username: str
    password: str = field(repr=False)


def first_start() -> FirstLogin | None:
    """Make organisation "Local", tenant "main" and the first admin; None where somebody exists already."""
    login = FirstLogin(username="admin", password=secrets.token_urlsafe(12))
    with acting(SYSTEM):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        if User.objects.exists():
            return None
        organisation = create_organisation(slug="local", name="Local", actor=SYSTEM)
        create_tenant(organisation=organisation, slug="main", name="Main", actor=SYSTEM)
        admin = create_user(username=login.username, password=login.password, is_operator=True, actor=SYSTEM)
        set_membership(user=admin, organisation=organisation, role=Role.ADMIN, actor=SYSTEM)
    return login
