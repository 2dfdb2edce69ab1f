"""What the review queue is narrowed to, and its order. All of it is in the queue's address.

===============  ======================================================  ==============================
parameter        value                                                   rows
===============  ======================================================  ==============================
``state``        open claimed decided delivered consumed expired         in that state; a claim whose
                 undeliverable any; left out: what waits (open, claimed) lease has ended is open
``tenant``       slug                                                    one tenant
``job``          job type                                                one job type
``reason``       a canonical code or an alias; ``other`` for codes that  stopped for it
                 the catalogue does not know
``over=1``                                                               wait longer than their SLA
``mine=1``                                                               claimed or decided by the reader
``uncertain=1``                                                          have a write to reconcile
``approves=1``                                                           ask for the approval of a call
``root``         root task id, exact                                     of a task
``run``          run id                                                  of a run
``q``            checkpoint, run, task or agent: exact or the beginning  (search box)
===============  ======================================================  ==============================

How they are shown: ``sort`` (due opened cost, ``-`` first for descending; what waits by ``due``, all
others by ``-opened``), ``size`` (1 to 200), ``after`` (a place in the list, from the list's own links).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from django import forms
from django.db.models import Exists, F, OuterRef, Q
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan, TupleLessThan

from runs.choices import CheckpointState
from runs.filters import FlagField, NameField
from runs.keyset import MAX_PAGE_SIZE, PAGE_SIZE
from runs.models import Checkpoint, Decision
from runs.querysets import ids_beginning

if TYPE_CHECKING:
    from django.http import QueryDict

    from guardops.tenants.models import User

    from .querysets import CheckpointQuerySet

ANY = "any"
COLUMNS = {"due": "due_at", "opened": "opened_at", "cost": "cost"}
STATES = [*CheckpointState.choices, (ANY, "Any state")]
ORDERS = [
    ("due", "Most urgent"),
    ("-opened", "Newest"),
    ("opened", "Oldest"),
    ("-cost", "Dearest"),
    ("cost", "Cheapest"),
    ("-due", "Least urgent"),
]
_WAITING = ("", CheckpointState.OPEN, CheckpointState.CLAIMED)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: after the row with that value of the sort key, and that primary key."""

    value: datetime | Decimal
    pk: int

    @classmethod
    def of(cls, checkpoint: Checkpoint, column: str) -> Place:
        return cls(getattr(checkpoint, column), checkpoint.pk)

    def __str__(self) -> str:
        value = self.value
        return f"{(value - _EPOCH) // _MICROSECOND if isinstance(value, datetime) else value}_{self.pk}"


class PlaceField(forms.CharField):
    """A place in the list, as two texts; the form knows of which sort key it is."""

    default_error_messages = {"invalid": "This page of the list cannot be found; start from its first page."}

    def to_python(self, value: Any) -> Any:
        number, found, pk = (super().to_python(value) or "").partition("_")
        if not number:
            return None
        if not (found and pk.isascii() and pk.isdecimal() and len(pk) < 19):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        return number, int(pk)


class QueueForm(forms.Form):
    """Reads the parameters of the queue."""

    state = forms.ChoiceField(label="State", choices=STATES, required=False)
    job = NameField(label="Job type", max_length=128, required=False)
    reason = NameField(label="Reason", max_length=64, required=False)
    over = FlagField(label="Over SLA", required=False)
    mine = FlagField(label="Mine", required=False)
    uncertain = FlagField(label="With a write to reconcile", required=False)
    approves = FlagField(label="Asking for approval", required=False)
    root = NameField(label="Task", max_length=128, required=False)
    run = forms.UUIDField(label="Run", required=False, error_messages={"invalid": "This is no run's id."})
    q = NameField(label="Checkpoint, run, task or agent", max_length=128, strip=True, required=False)
    sort = forms.ChoiceField(label="Order", choices=ORDERS, required=False)
    size = forms.IntegerField(label="Rows", min_value=1, max_value=MAX_PAGE_SIZE, required=False)
    after = PlaceField(max_length=60, required=False)

    BESIDE = ("tenant", "since", "seen", "rows")
    """Parameters that are read elsewhere: which tenant, and what the page shows already."""

    def __init__(self, data: QueryDict) -> None:
        super().__init__(data)
        self.params = data
        self.ignored = sorted(set(data) - set(self.fields) - {*self.BESIDE})

    def clean(self) -> dict[str, Any]:
        for name in self.fields:
            if len(self.params.getlist(name)) > 1:
                self.add_error(name, "Given more than once; give it once.")
        after = self.cleaned_data.get("after")
        if after and "sort" in self.cleaned_data:
            self.cleaned_data["after"] = self._place(*after)
        return self.cleaned_data

    def _place(self, number: str, pk: int) -> Place | None:
        try:
            if self.column == "cost":
                cost = Decimal(number)
                if cost.is_finite() and 0 <= cost < 10**8 and -cost.as_tuple().exponent <= 6:  # type: ignore[operator]
                    return Place(cost, pk)
            elif number.isascii() and number.isdecimal():
                return Place(_EPOCH + int(number) * _MICROSECOND, pk)
        except (InvalidOperation, OverflowError, ValueError):
            pass  # told below
        self.add_error("after", str(PlaceField.default_error_messages["invalid"]))
        return None

    @property
    def waits(self) -> bool:
        """Say whether the list holds nothing but what waits."""
        return self.cleaned_data.get("state", "") in _WAITING

    @property
    def default_sort(self) -> str:
        return "due" if self.waits else "-opened"

    @property
    def sort_key(self) -> str:
        """The order, as ``sort`` names it."""
        return str(self.cleaned_data.get("sort") or self.default_sort)

    @property
    def column(self) -> str:
        return COLUMNS[self.sort_key.removeprefix("-")]

    @property
    def size_asked(self) -> int:
        return self.cleaned_data.get("size") or PAGE_SIZE

    @property
    def narrows(self) -> bool:
        """Say whether something beside the state and the order narrows the list."""
        return any(
            self.cleaned_data.get(name) for name in set(self.fields) - {"state", "sort", "size", "after"}
        )

    def narrow(self, found: CheckpointQuerySet, user: User, now: datetime) -> CheckpointQuerySet:
        """Return those of the checkpoints that match, in no order."""
        asked = self.cleaned_data
        found = in_state(found, asked["state"], now)
        if asked["job"]:
            found = found.of_job(asked["job"])
        if asked["reason"]:
            found = found.stopped_for(asked["reason"])
        if asked["over"]:
            found = found.over_sla(now)
        if asked["mine"]:
            found = found.filter(_of_reader(user, now))
        for name in ("uncertain", "approves"):
            if asked[name]:
                found = found.filter(**{name: True})
        if asked["root"]:
            found = found.of_task(asked["root"])
        if asked["run"]:
            found = found.of_run(asked["run"])
        return found.filter(_beginning(asked["q"])) if asked["q"] else found

    def in_order(self, found: CheckpointQuerySet) -> CheckpointQuerySet:
        sign = "-" if self.sort_key.startswith("-") else ""
        return found.order_by(f"{sign}{self.column}", f"{sign}id")

    def beyond(self, found: CheckpointQuerySet) -> CheckpointQuerySet:
        """Return the rows from the asked place on, in order."""
        place = self.cleaned_data["after"]
        if place is not None:
            lookup = TupleLessThan if self.sort_key.startswith("-") else TupleGreaterThan
            found = found.filter(lookup(Tuple(F(self.column), F("id")), (place.value, place.pk)))
        return self.in_order(found)


def in_state(found: CheckpointQuerySet, state: str, now: datetime) -> CheckpointQuerySet:
    """Return those in a state as the form names it."""
    match state:
        case "":
            return found.waiting()
        case CheckpointState.OPEN:
            return found.unclaimed(now)
        case CheckpointState.CLAIMED:
            return found.claimed(now)
        case "any":
            return found
    return found.in_states([state])


def _of_reader(user: User, now: datetime) -> Q:
    mine = Decision.objects.standing().filter(checkpoint=OuterRef("pk"), by=user)
    return Q(claimed_by=user, state=CheckpointState.CLAIMED, lease_until__gt=now) | Q(Exists(mine))


def _beginning(text: str) -> Q:
    found = Q(root_task_id__startswith=text) | Q(agent__startswith=text) | Q(external_id__startswith=text)
    ids = ids_beginning(text)
    return found if ids is None else found | Q(checkpoint_id__range=ids) | Q(run_id__range=ids)
