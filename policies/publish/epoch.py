"""The epoch: guards take a lower revision only with a new one, so a restored database begins one."""

from __future__ import annotations

import secrets
from datetime import datetime

from django.db import connection

from guardops.tenants.cluster import read_system_identifier
from policies.models import Epoch


def current_epoch(now: datetime) -> str:
    """Return the epoch, made where there is none."""
    epoch = Epoch.objects.first()
    return epoch.name if epoch is not None else begin_epoch(now)


def is_ours() -> bool:
    """Say whether this cluster made the epoch that stands."""
    return Epoch.objects.filter(system_identifier=_identifier()).exists()


def begin_epoch(now: datetime) -> str:
    """Begin a new epoch and return its name."""
    name = secrets.token_hex(4)
    values = {"name": name, "system_identifier": _identifier(), "since": now}
    # The primary key admits one row: of two that begin at once, the later stands.
    Epoch.objects.update_or_create(only=True, defaults=values)
    return name


def _identifier() -> int:
    with connection.cursor() as cursor:
        return read_system_identifier(cursor)
