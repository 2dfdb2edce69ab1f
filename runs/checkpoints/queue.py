"""The review queue: who may see which rows of it, what stands in a row, what is new, what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, F, Prefetch, Q
from django.urls import reverse

from guardops.tenants.access import Visible, tenants_with_role
from guardops.tenants.choices import Role
from runs.models import Checkpoint, Decision
from runs.reports.asked import tenant_ids_of

from .filters import Place, QueueForm, in_state
from .words import (
    ACTIONS,
    Said,
    Sla,
    is_claimed,
    is_waiting,
    last_words,
    sla_of,
    state_of,
    timeout_words,
    title_of,
)

if TYPE_CHECKING:
    from guardops.tenants.models import Tenant, User

    from .querysets import CheckpointQuerySet

COUNTED_UP_TO = 10_000
SETTLING = timedelta(seconds=30)
"""How long a checkpoint may take from its receipt until others can read it."""
MOST_NAMED = 100
"""How many checkpoints an address names at most: proxies let no longer one through."""
MOST_PAIRS = 500


@dataclass(frozen=True, slots=True)
class Row:
    """A checkpoint as its reader sees it at ``now``."""

    checkpoint: Checkpoint
    reader: User
    is_reviewer: bool
    now: datetime

    @property
    def tenant(self) -> Tenant:
        return self.checkpoint.tenant

    @property
    def token(self) -> str:
        """What names the row in forms: ``acme:0193b4e2-…``."""
        return f"{self.tenant.slug}:{self.checkpoint.checkpoint_id}"

    @property
    def id(self) -> str:
        """The row's id in the page."""
        return f"row-{self.tenant.slug}-{self.checkpoint.checkpoint_id.hex}"

    @property
    def title(self) -> str:
        one = self.checkpoint
        limits = (
            one.limits if hasattr(one, "limits") else one.detail.get("limits")
        )  # of `in_rows`, or read whole
        return title_of(one.reason, limits)

    @property
    def state(self) -> Said:
        return state_of(self.checkpoint, self.now)

    @property
    def waits(self) -> bool:
        return is_waiting(self.checkpoint)

    @property
    def sla(self) -> Sla:
        return sla_of(self.checkpoint, self.now)

    @property
    def can_decide(self) -> bool:
        """Whether the reader may decide it; past its expiry nobody may, swept or not."""
        return self.is_reviewer and self.waits and self.checkpoint.expires_at > self.now

    @property
    def timeout(self) -> str:
        return timeout_words(self.checkpoint.on_timeout)

    @property
    def claimed(self) -> bool:
        return is_claimed(self.checkpoint, self.now)

    @property
    def is_mine(self) -> bool:
        return self.claimed and self.checkpoint.claimed_by_id == self.reader.pk

    @property
    def claimant(self) -> str:
        return _name(self.checkpoint.claimed_by)

    @property
    def decision(self) -> Decision | None:
        """The decision that stands."""
        standing: list[Decision] = getattr(self.checkpoint, "standing", [])
        return standing[0] if standing else None

    @property
    def can_undo(self) -> bool:
        """Whether the decision has not been handed out; the database has the last word."""
        made = self.decision
        if made is None or made.by_system or made.delivered_at is not None:
            return False
        return self.is_reviewer and made.deliver_at > self.now

    @property
    def decided(self) -> str:
        """What was decided, in words."""
        made = self.decision
        if made is None:
            return ""
        said = ACTIONS[made.action].done
        return f"{said}, as nobody decided" if made.by_system else said

    @property
    def decider(self) -> str:
        return _name(self.decision.by) if self.decision else ""

    @property
    def last(self) -> str:
        """The last thing that happened to it, in words."""
        return last_words(self.checkpoint, _name(self.checkpoint.last_by))

    @property
    def act(self) -> str:
        """What the reader may do to the row where it stands: claim, release, undo or nothing."""
        if self.can_undo:
            return "undo"
        if not self.can_decide or (self.claimed and not self.is_mine):
            return ""
        return "release" if self.is_mine else "claim"

    @property
    def href(self) -> str:
        query = urlencode({"tenant": self.tenant.slug})
        return f"{reverse('runs:checkpoint', args=[self.checkpoint.checkpoint_id])}?{query}"


@dataclass(frozen=True, slots=True)
class Known:
    """What a page shows already: all that was received until ``since``, and of what came later, these."""

    since: datetime
    ids: Sequence[UUID] = ()

    @property
    def named(self) -> str:
        return ".".join(one.hex for one in self.ids)


@dataclass(frozen=True, slots=True)
class Queue:
    """A page of the queue.

    ``state`` is rows, first (no checkpoint was ever opened), clear (nothing waits), filtered, past, invalid
    or nobody. ``total`` is cut at one above ``COUNTED_UP_TO``, and ``late`` counts those over their SLA.
    """

    form: QueueForm
    state: str
    known: Known
    rows: Sequence[Row] = ()
    total: int = 0
    late: int = 0
    next: str = ""

    @property
    def exact(self) -> bool:
        return self.total <= COUNTED_UP_TO

    @property
    def can_decide(self) -> bool:
        return any(row.can_decide for row in self.rows)


class Names(NamedTuple):
    """What the bar offers to choose from."""

    job_types: Sequence[str]
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many checkpoints wait, and how many of them for longer than their SLA."""

    count: int
    late: int


def read_queue(form: QueueForm, seen: Visible, user: User, tenant: str, now: datetime) -> Queue:
    """Return one page of the checkpoints that the form asks for.

    Raises Http404 for a ``tenant`` (a slug, empty for all) that is not among those ``seen``.
    """
    tenants = tenant_ids_of(tenant, seen)
    if not form.is_valid():
        return Queue(form, "invalid", Known(now))
    if not tenants:
        return Queue(form, "nobody", Known(now))
    of_reader = Checkpoint.objects.for_tenants(tenants)
    matching = form.narrow(of_reader, user, now)
    # Read before the rows: what arrives in between is told as new though it is there, never the other way.
    known = _known(matching, now)
    size = form.size_asked
    found = list(in_rows(form.beyond(matching))[: size + 1])
    if not found:
        return Queue(form, _why_empty(form, of_reader), known)
    return Queue(
        form,
        "rows",
        known,
        rows_of(found[:size], user, now),
        total=matching.order_by()[: COUNTED_UP_TO + 1].count(),
        late=matching.over_sla(now).count() if form.waits else 0,
        next=str(Place.of(found[size - 1], form.column)) if len(found) > size else "",
    )


def in_rows(found: CheckpointQuerySet) -> CheckpointQuerySet:
    """Return the checkpoints with what their rows show, and without what they don't: the packet is large."""
    standing = Decision.objects.standing().select_related("by")
    shown: CheckpointQuerySet = found.defer("detail", "body_digest").annotate(limits=F("detail__limits"))
    return shown.select_related("tenant", "claimed_by", "last_by").prefetch_related(
        Prefetch("decisions", standing, to_attr="standing")
    )


def rows_of(found: Iterable[Checkpoint], user: User, now: datetime) -> list[Row]:
    """Return checkpoints as ``user`` sees them, who may act where they are a reviewer."""
    acts_in = set(reviewed_tenants(user))
    return [Row(one, user, one.tenant_id in acts_in, now) for one in found]


def reviewed_tenants(user: User) -> list[int]:
    """Return the ids of the tenants where ``user`` decides."""
    return list(tenants_with_role(user, Role.REVIEWER).values_list("pk", flat=True))


def names_of(form: QueueForm, tenants: Sequence[int], now: datetime) -> Names:
    """Return the job types and reasons among the checkpoints in the asked state."""
    found = in_state(Checkpoint.objects.for_tenants(tenants), form.cleaned_data.get("state", ""), now)
    pairs = list(found.order_by().values_list("job_type", "reason").distinct()[:MOST_PAIRS])
    return Names([job_type for job_type, _ in pairs], [reason for _, reason in pairs])


def count_new(form: QueueForm, tenants: Sequence[int], user: User, known: Known, now: datetime) -> int:
    """Return how many checkpoints match that a page, which knows those, does not show yet."""
    matching = form.narrow(Checkpoint.objects.for_tenants(tenants), user, now)
    return matching.filter(received_at__gt=known.since).exclude(checkpoint_id__in=known.ids).count()


def count_waiting(tenants: Sequence[int], now: datetime) -> Waiting:
    """Return how much waits in these tenants."""
    late = Count("pk", filter=Q(due_at__lte=now))
    found = Checkpoint.objects.for_tenants(tenants).waiting().aggregate(count=Count("pk"), late=late)
    return Waiting(found["count"], found["late"])


def next_waiting(user: User, now: datetime, *, after: Checkpoint | None = None) -> Checkpoint | None:
    """Return what ``user`` may decide next: by due time, from ``after`` on and then from the beginning.

    What others have claimed is left out; None where nothing waits.
    """
    waiting = Checkpoint.objects.filter(tenant_id__in=reviewed_tenants(user), expires_at__gt=now).waiting()
    mine = waiting.filter(Q(state="open") | Q(lease_until__lte=now) | Q(claimed_by=user))
    mine = mine.defer("detail").select_related("tenant").order_by("due_at", "id")
    found: Checkpoint | None = None
    if after is not None:
        mine = mine.exclude(pk=after.pk)
        later = Q(due_at__gt=after.due_at) | Q(due_at=after.due_at, id__gt=after.pk)
        found = mine.filter(later).first()
    return found or mine.first()


def _known(matching: CheckpointQuerySet, now: datetime) -> Known:
    """Return what a page that is read now shows.

    A checkpoint that was received before another may be readable after it, so those of the last seconds are
    named one by one; in a flood of them only the moment counts.
    """
    recent = matching.filter(received_at__gt=now - SETTLING)
    ids = list(recent.values_list("checkpoint_id", flat=True)[: MOST_NAMED + 1])
    return Known(now) if len(ids) > MOST_NAMED else Known(now - SETTLING, ids)


def _why_empty(form: QueueForm, of_reader: CheckpointQuerySet) -> str:
    if form.cleaned_data["after"]:
        return "past"
    if not of_reader.exists():
        return "first"
    return "filtered" if form.narrows or form.cleaned_data["state"] else "clear"


def _name(person: User | None) -> str:
    return person.get_username() if person else ""
