"""What guards say of themselves with each pull: kept in memory, written down in batches."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import connection

from policies.models import GuardInstance

MAX_GUARDS = 100_000
"""Guards that one gate keeps between two writes; beyond it the ones seen longest ago are left out."""
BATCH = 1_000
KEPT = timedelta(days=7)

_APPLIED = re.compile(
    r"(?:([\w-]{1,16})\.)?(\d{1,16}):([0-9a-f]{16})((?:;[a-z]+=[\w.-]{1,32}){0,4})", re.ASCII
)
_REJECT = re.compile(r"(\d{1,16}):([0-9a-f]{16});([a-z_]{1,32})", re.ASCII)
_AGENT = re.compile(r"guardops-guard/([\w.+-]{1,32})", re.ASCII)
_UPSERT = """
INSERT INTO guard_instance AS seen (tenant_id, instance, version, applied_epoch, applied_revision,
    applied_hash, source, age_s, rejected_revision, reject_code, first_seen, last_seen)
SELECT new.*, new.last_seen
FROM unnest(%s::int[], %s::uuid[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[], %s::int[],
    %s::bigint[], %s::text[], %s::timestamptz[])
    AS new (tenant_id, instance, version, applied_epoch, applied_revision, applied_hash,
    source, age_s, rejected_revision, reject_code, last_seen)
JOIN tenants_tenant AS tenant ON tenant.id = new.tenant_id
ON CONFLICT (tenant_id, instance) DO UPDATE SET version = excluded.version,
    applied_epoch = excluded.applied_epoch, applied_revision = excluded.applied_revision,
    applied_hash = excluded.applied_hash, source = excluded.source, age_s = excluded.age_s,
    rejected_revision = excluded.rejected_revision, reject_code = excluded.reject_code,
    last_seen = excluded.last_seen
WHERE seen.last_seen <= excluded.last_seen"""


class Sign(NamedTuple):
    """A guard's request, as it came: parsed only when it is written down."""

    seen_at: datetime
    applied: str
    reject: str
    agent: str


@dataclass(frozen=True, slots=True)
class Applied:
    """What ``GuardOps-Applied: 42:<hash16>;src=server;age=12`` says is in force."""

    revision: int = 0
    hash16: str = ""
    epoch: str = ""
    source: str = ""
    age_s: int = 0


@dataclass(frozen=True, slots=True)
class Rejected:
    """What ``GuardOps-Reject: 43:<hash16>;<code>`` refuses."""

    revision: int
    hash16: str
    code: str


def read_applied(header: str) -> Applied:
    """Read the header; what makes no sense is as if it were not there."""
    match = _APPLIED.fullmatch(header)
    if match is None:
        return Applied()
    epoch, revision, hash16, rest = match.groups()
    options = dict(option.split("=", 1) for option in rest.split(";") if option)
    age = options.get("age", "0")
    return Applied(
        revision=int(revision),
        hash16=hash16,
        epoch=options.get("epoch", epoch or ""),
        source=options.get("src", ""),
        age_s=min(int(age), 2**31 - 1) if age.isdigit() else 0,
    )


def read_reject(header: str) -> Rejected | None:
    match = _REJECT.fullmatch(header)
    return Rejected(int(match[1]), match[2], match[3]) if match else None


class Fleet:
    """The guards that one gate has heard of since it last wrote. Used on the loop alone."""

    def __init__(self) -> None:
        self._signs: OrderedDict[tuple[int, str], Sign] = OrderedDict()

    def __len__(self) -> int:
        return len(self._signs)

    def seen(self, tenant_id: int, guard: str, sign: Sign) -> None:
        key = (tenant_id, guard)
        self._signs[key] = sign
        self._signs.move_to_end(key)
        if len(self._signs) > MAX_GUARDS:
            self._signs.popitem(last=False)

    def take(self) -> Mapping[tuple[int, str], Sign]:
        """Return what was heard since the last call."""
        signs, self._signs = self._signs, OrderedDict()
        return signs


def write_signs(signs: Mapping[tuple[int, str], Sign]) -> int:
    """Write down what guards said, a row a guard; return how many rows were written.

    Rows are written in order of their keys, in batches, each a transaction: two gates never wait for each
    other in a circle. An instance that is no UUID is nobody's.
    """
    rows = sorted(row for (tenant_id, guard), sign in signs.items() if (row := _row(tenant_id, guard, sign)))
    written = 0
    for start in range(0, len(rows), BATCH):
        with connection.cursor() as cursor:
            cursor.execute(
                _UPSERT, [list(column) for column in zip(*rows[start : start + BATCH], strict=True)]
            )
            written += cursor.rowcount
    return written


def forget_gone_guards(now: datetime) -> int:
    """Drop guards that nobody has heard of for a week; return how many there were."""
    gone = GuardInstance.objects.filter(last_seen__lt=now - KEPT)
    return gone.delete()[0]


Row = tuple[int, str, str, str, int, str, str, int, "int | None", str, datetime]


def _row(tenant_id: int, guard: str, sign: Sign) -> Row | None:
    try:
        instance = str(UUID(guard))
    except ValueError:
        return None
    applied, rejected = read_applied(sign.applied), read_reject(sign.reject)
    agent = _AGENT.match(sign.agent)
    return (
        tenant_id,
        instance,
        agent[1] if agent else "",
        applied.epoch,
        applied.revision,
        applied.hash16,
        applied.source,
        applied.age_s,
        rejected.revision if rejected else None,
        rejected.code if rejected else "",
        sign.seen_at,
    )
