"""Single runs: an organisation may keep its own for less time than the installation keeps whole days.

They are deleted in batches, each in a transaction of its own, so that nobody waits for long and what is done
stays done. Counts in the roll-ups stay; what fold has not counted stays as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from guardops.tenants.actors import SYSTEM, acting
from guardops.tenants.models import Tenant
from runs.models import Checkpoint, RefusedWork
from runs.models.checkpoints import WAITING
from runs.partitions import run_id_bounds

from .beside import PAGE, delete_beside, enter_tasks_of
from .horizon import EARLIEST, kept_from, move_horizon

# In the order of the primary key, which is that of the partitions: each batch goes on behind the last one,
# past nothing that is deleted already.
_DUE = """\
SELECT run_id FROM run WHERE tenant_id = %(tenant)s AND run_id > %(after)s AND run_id < %(high)s
    AND at < %(until)s AND ingest_mark < %(counted)s ORDER BY run_id LIMIT %(page)s"""


def shorter_kept(now: datetime, days: int) -> list[tuple[Tenant, datetime]]:
    """Return the tenants whose organisation keeps runs for fewer than ``days``, and from when on."""
    tenants = Tenant.objects.filter(organisation__retention_days__lt=days).select_related("organisation")
    return [(tenant, kept_from(now, tenant.organisation.retention_days or days)) for tenant in tenants]


def delete_early(
    tenant: Tenant, until: datetime, *, counted: int, page: int = PAGE
) -> Iterator[tuple[int, int]]:
    """Delete the tenant's counted runs placed before ``until``; yield a batch's runs and rows beside them."""
    after, (_, high) = UUID(int=0), run_id_bounds(EARLIEST, until)
    due: dict[str, Any] = {
        "tenant": tenant.pk,
        "high": high,
        "until": until,
        "counted": counted,
        "page": page,
    }
    while True:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_DUE, due | {"after": after})
            ids: list[UUID] = [run_id for (run_id,) in cursor.fetchall()]
            if not ids:
                return
            move_horizon(tenant, until)
            enter_tasks_of(tenant.pk, ids)
            beside = delete_beside(tenant.pk, ids)
            cursor.execute(
                "DELETE FROM run WHERE tenant_id = %s AND run_id = ANY(%s::uuid[])", [tenant.pk, ids]
            )
        yield len(ids), beside
        after = ids[-1]


def delete_refused_work(until: datetime, tenant: Tenant | None = None) -> int:
    """Delete what was refused before ``until``, of one tenant or of all; return how many rows."""
    due = RefusedWork.objects.filter(at__lt=until)
    due = due if tenant is None else due.filter(tenant_id=tenant.pk)
    rows = 0
    while keys := list(due.order_by("tenant_id", "at").values_list("pk", flat=True)[:PAGE]):
        rows += RefusedWork.objects.filter(pk__in=keys).delete()[0]
    return rows


def delete_checkpoints(until: datetime, tenant: Tenant | None = None) -> int:
    """Delete checkpoints that were opened before ``until`` and wait for nobody; return how many rows.

    What was decided on them stays in the audit trail, without what agents had in hand.
    """
    due = Checkpoint.objects.filter(opened_at__lt=until).exclude(state__in=WAITING)
    due = due if tenant is None else due.filter(tenant=tenant)
    rows = 0
    while keys := list(due.order_by("tenant_id", "opened_at").values_list("pk", flat=True)[:PAGE]):
        with acting(SYSTEM):
            rows += Checkpoint.objects.filter(pk__in=keys).delete()[0]
    return rows
