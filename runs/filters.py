"""The filters of the runs list. Every number on a page links here, with parameters for exactly its rows.

Which runs: parameters narrow together (and); the list and the number beside it never differ.

===================  =========================================================  ==========================
parameter            value                                                      measure it lists
===================  =========================================================  ==========================
``range``            1h 6h 24h 7d 14d 30d 90d; default 24h                      every one: ``at`` within it
``from`` ``to``      ISO 8601 times instead of ``range``; half-open
``tenant``           slug                                                       one tenant
``job``              job type                                                   one job type
``release``          release                                                    one release
``outcome``          completed, completed_forced, unresolved, escalated,        runs by outcome; halted
                     halted, cancelled, failed; repeatable (or)                 share: halted + escalated
``stopped=1``        a guard's halt reason, whatever the outcome                all halts
``family``           repetition cycle progress source budget error control      halts by reason, a family
                     other
``reason``           a canonical code or an alias; ``other`` for all codes      halts by reason, a code
                     that the catalogue does not know
``watched=1``        no guard's halt reason, and one that shadow mode would  stops in shadow mode
                     have had
``would_halt``       a canonical code or an alias                               stops in shadow mode, a code
``looped=1``         counts in the loop rate                                    loop rate; cost with a loop
``provider_failure=1``  ended by a provider's failure                           provider failures
``forced=1``         outcome completed_forced                                   forced-answer share
``blocked=1``        at least one blocked fingerprint                           runs with a blocked call
``duplicates=1``     at least one duplicate call                                duplicate calls a run
``completes=1``      completed its task (once a task)                           completed tasks
``eligible=1``       first attempt of a root run whose task counts              eligible tasks
``answered=1``       closed with an answer                                      with completes: steps
``step_unit``        tool_call turn superstep                                   steps, by unit
``steps_min``        steps from, to; both included                              one bar of a histogram
``steps_max``
``near_cap=1``       steps at 90 % of their cap or above                        share near the cap
``attempt_min``      attempts from this one on; 2 = later attempts              cost of later attempts
``cost``             useful forced halted failed                                a part of the cost
``review``           false_stop right_stop; none: a stop, or shadow mode's       false stops
                     would-be stop, that nobody has reviewed
``judged``           a code: somebody reviewed the stop, and judged this        reviewed stops, a detector
``root``             root task id, exact                                        runs of a task
``source``           ``domain:name`` or ``tool:name``: used it              a source's runs
``delegated=1``      another run started it                                     a task's descendants
``q``                run id, root task or agent: exact or the beginning         (search box)
===================  =========================================================  ==========================

How they are shown: ``sort`` (at steps cost duration, ``-`` first for descending; default ``-at``), ``size``
(1 to 200; default 50), ``after`` or ``before`` (a place in the list, from the list's own links).

A value that makes no sense, or one given twice where one is allowed, is an error shown in the form, and no
row is listed; a parameter of another name is named as ignored.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import django_filters as filters
from django import forms
from django.db.models import Exists, OuterRef
from django.utils.functional import cached_property

from guardops.shown import from_visible
from policies.choices import SourceKind

from .choices import Family, Outcome, StopVerdict
from .keyset import COLUMNS, MAX_PAGE_SIZE, PAGE_SIZE, BadCursor, Cursor, Sort
from .models import Run, StopReview
from .querysets import RunQuerySet
from .reports.windows import WindowError, parse_window

if TYPE_CHECKING:
    from django.http import QueryDict

    from .reports.metrics import Window

_COUNT = {"min_value": 0, "max_value": 2**31 - 1}
_RELEASE_LENGTH = 260  # release and prompt version, folded
_STEP_UNITS = [("tool_call", "tool calls"), ("turn", "turns"), ("superstep", "supersteps")]
_COST_PARTS = [("useful", "useful"), ("forced", "forced answers"), ("halted", "halted"), ("failed", "failed")]
_REVIEWS = [*StopVerdict.choices, ("none", "Not reviewed")]
_ORDERS = [(f"{sign}{key}", key) for key in COLUMNS for sign in ("-", "")]


def is_given(value: Any) -> bool:
    """Say whether a parameter was there; 0 is a value like any other."""
    return value not in (None, "", [])


class VerbFilter(filters.Filter):
    """Narrows by the queryset verb of this name, with the value as its argument."""

    def __init__(self, verb: str, field_class: type[forms.Field] = forms.CharField, **extra: Any) -> None:
        self.field_class = field_class
        self.verb = verb
        super().__init__(**extra)

    def filter(self, runs: RunQuerySet, value: Any) -> RunQuerySet:
        return getattr(runs, self.verb)(value) if is_given(value) else runs


class FlagFilter(VerbFilter):
    """Narrows by the queryset verb of this name where the value is 1."""

    def __init__(self, verb: str, **extra: Any) -> None:
        super().__init__(verb, FlagField, **extra)

    def filter(self, runs: RunQuerySet, value: Any) -> RunQuerySet:
        return getattr(runs, self.verb)() if value else runs


class ReviewFilter(filters.Filter):
    """Narrows to runs whose stop was reviewed like this, or with ``none`` to stops that nobody reviewed."""

    field_class = forms.ChoiceField

    def filter(self, runs: RunQuerySet, value: Any) -> RunQuerySet:
        if not is_given(value):
            return runs
        reviews = StopReview.objects.filter(tenant=OuterRef("tenant_id"), run_id=OuterRef("run_id"))
        if value == "none":
            return runs.reviewable().filter(~Exists(reviews))
        return runs.filter(Exists(reviews.filter(verdict=value)))


class SourceField(forms.CharField):
    """A source, ``domain:`` or ``tool:`` and its name, read into a pair of both."""

    default_error_messages = {"invalid": "Write domain: or tool: and the name of the source."}

    def to_python(self, value: Any) -> Any:
        text = from_visible(super().to_python(value) or "")
        if not text:
            return None
        kind, _, name = text.partition(":")
        if kind not in SourceKind.values or not name:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid")
        return kind, name


class SourceFilter(filters.Filter):
    """Narrows to runs that used a source."""

    field_class = SourceField

    def filter(self, runs: RunQuerySet, value: Any) -> RunQuerySet:
        if not is_given(value):
            return runs
        asked = self.parent.form.cleaned_data
        # Of stopped runs there is an index; of others each is looked into.
        indexed = any(is_given(asked.get(name)) for name in ("stopped", "family", "reason"))
        return runs.stopped_with(*value) if indexed else runs.that_used(*value)


class Shown(filters.Filter):
    """Says how runs are shown, or is read by the form as a whole; narrows nothing by itself."""

    def __init__(self, field_class: type[forms.Field] = forms.CharField, **extra: Any) -> None:
        self.field_class = field_class
        super().__init__(**extra)

    def filter(self, runs: RunQuerySet, value: Any) -> RunQuerySet:
        return runs


class FlagField(forms.ChoiceField):
    """On with 1, off when left out."""

    default_error_messages = {"invalid_choice": "Write 1 or leave it out."}

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=[("1", "yes")], **options)


class NameField(forms.CharField):
    """A name as runs carry it, to the last space; what is unseen in it may come as the page showed it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"strip": False, **options})

    def to_python(self, value: Any) -> str:
        return from_visible(super().to_python(value) or "")


class CursorField(forms.CharField):
    """A place in the list, read into a `Cursor`."""

    default_error_messages = {"invalid": "This page of the list cannot be found; start from its first page."}

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            return Cursor.decode(text)
        except BadCursor:
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None


class RunFilterForm(forms.Form):
    """Reads the parameters as a whole: the window, the order, and what contradicts itself."""

    def __init__(self, data: QueryDict, *, now: datetime, zone: str) -> None:
        super().__init__(data)
        self.params = data
        self.now, self.zone = now, zone
        self.window: Window | None = None
        self.ignored = sorted(set(data) - set(self.fields))

    @property
    def flags(self) -> list[forms.BoundField]:
        """The fields that are on or off."""
        return [self[name] for name, field in self.fields.items() if isinstance(field, FlagField)]

    @property
    def order(self) -> Sort:
        return Sort.parse(self.cleaned_data.get("sort") or str(Sort()))

    @property
    def size(self) -> int:
        return self.cleaned_data.get("size") or PAGE_SIZE

    def clean(self) -> dict[str, Any]:
        for name, field in self.fields.items():
            if not isinstance(field, forms.MultipleChoiceField) and len(self.params.getlist(name)) > 1:
                self.add_error(name, "Given more than once; give it once.")
        asked = {name: str(self.params.get(name, "")) for name in ("range", "from", "to")}
        try:
            self.window = parse_window(asked, self.now, self.zone)
        except WindowError as error:
            self.add_error("range", str(error))
        cleaned = self.cleaned_data
        low, high = cleaned.get("steps_min"), cleaned.get("steps_max")
        if low is not None and high is not None and low > high:
            self.add_error("steps_max", "Must not be below the fewest steps.")
        self._check_place()
        return cleaned

    def _check_place(self) -> None:
        after, before = self.cleaned_data.get("after"), self.cleaned_data.get("before")
        if after and before:
            self.add_error("before", "Give a page's beginning or its end, not both.")
        for name, place in (("after", after), ("before", before)):
            if place and "sort" in self.cleaned_data and place.key != self.order.key:
                self.add_error(
                    name, "This page belongs to a list in another order; start from its first page."
                )


class RunFilter(filters.FilterSet):
    """Runs that match every parameter. Hand it runs that are already narrowed to the scope's tenants."""

    range = Shown(label="Range")
    tenant = Shown(label="Tenant", max_length=64)
    job = VerbFilter("of_job", NameField, label="Job type", max_length=128)
    release = VerbFilter("of_release", NameField, label="Release", max_length=_RELEASE_LENGTH)
    outcome = VerbFilter("ended_as", forms.MultipleChoiceField, label="Outcome", choices=Outcome.choices)
    stopped = FlagFilter("stopped", label="Stopped by the guard")
    family = VerbFilter("of_family", forms.ChoiceField, label="Halt reasons", choices=Family.choices)
    reason = VerbFilter("stopped_for", NameField, label="Halt reason", max_length=64)
    watched = FlagFilter("only_watched", label="Would have been stopped in shadow mode")
    would_halt = VerbFilter("would_stop_for", NameField, label="Would-be halt reason", max_length=64)
    looped = FlagFilter("looped", label="Counts as a loop")
    provider_failure = FlagFilter("provider_failures", label="Provider failure")
    forced = FlagFilter("forced", label="Forced answer")
    blocked = FlagFilter("blocked", label="Blocked call")
    duplicates = FlagFilter("with_duplicates", label="Duplicate calls")
    completes = FlagFilter("completing", label="Completed its task")
    eligible = FlagFilter("eligible", label="First run of its task")
    answered = FlagFilter("answered", label="Closed with an answer")
    near_cap = FlagFilter("near_cap", label="At 90 % of its step cap or above")
    step_unit = VerbFilter("counted_in", forms.ChoiceField, label="Steps counted in", choices=_STEP_UNITS)
    steps_min = VerbFilter("with_steps_from", forms.IntegerField, label="Steps from", **_COUNT)
    steps_max = VerbFilter("with_steps_to", forms.IntegerField, label="Steps up to", **_COUNT)
    attempt_min = VerbFilter(
        "from_attempt", forms.IntegerField, label="Attempts from", min_value=1, max_value=1_000
    )
    cost = VerbFilter("of_cost_part", forms.ChoiceField, label="Cost that was", choices=_COST_PARTS)
    review = ReviewFilter(label="Stop reviewed as", choices=_REVIEWS)
    judged = VerbFilter("judged_for", NameField, label="Judged reason", max_length=64)
    root = VerbFilter("of_task", NameField, label="Task", max_length=128)
    source = SourceFilter(label="Source", max_length=512, strip=False)
    delegated = FlagFilter("delegated", label="Started by another run")
    q = VerbFilter("matching", NameField, label="Run, task or agent", max_length=128, strip=True)
    sort = Shown(forms.ChoiceField, label="Order", choices=_ORDERS)
    size = Shown(forms.IntegerField, label="Rows on a page", min_value=1, max_value=MAX_PAGE_SIZE)
    after = Shown(CursorField, label="Page after")
    before = Shown(CursorField, label="Page before")

    class Meta:
        model = Run
        fields: list[str] = []
        form = RunFilterForm

    def __init__(self, data: QueryDict, queryset: RunQuerySet, *, now: datetime, zone: str = "UTC") -> None:
        super().__init__(data, queryset)
        self.data = data  # the base replaces an empty one
        self.now, self.zone = now, zone

    @classmethod
    def get_filters(cls) -> dict[str, filters.Filter]:
        return {**super().get_filters(), "from": Shown(label="From"), "to": Shown(label="To")}

    @cached_property
    def form(self) -> RunFilterForm:
        form: RunFilterForm = self.get_form_class()(self.data, now=self.now, zone=self.zone)
        form.full_clean()
        return form

    @property
    def qs(self) -> RunQuerySet:
        """The runs that match; none where a parameter makes no sense."""
        runs: RunQuerySet = self.queryset
        if self.form.errors or self.form.window is None:
            return runs.none()
        matching: RunQuerySet = self.filter_queryset(runs.within(self.form.window))
        return matching
