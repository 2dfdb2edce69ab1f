"""The filters in force as words, each with the address of the same list without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django import forms

from guardops.addresses import first_page
from runs.filters import FlagField

if TYPE_CHECKING:
    from django.http import QueryDict

    from runs.filters import RunFilterForm

# What the bar above the list shows, and what says how the list is shown.
_NO_CHIPS = frozenset({"range", "tenant", "job", "release", "q", "sort", "size", "after", "before"})


@dataclass(frozen=True, slots=True)
class Chip:
    """One filter in force. ``value`` may be anybody's text; ``without`` is the query that drops it."""

    label: str
    value: str
    without: str


def chips(form: RunFilterForm, params: QueryDict) -> list[Chip]:
    """Return a chip for every filter in ``params`` that the bar does not show, in the address's order."""
    return [
        Chip(
            str(form.fields[name].label), _words(form.fields[name], value), query_without(params, name, value)
        )
        for name in params
        if name in form.fields and name not in _NO_CHIPS
        for value in params.getlist(name)
        if value
    ]


def _words(field: forms.Field, value: str) -> str:
    if not isinstance(field, forms.ChoiceField):
        return value
    return "" if isinstance(field, FlagField) else dict(field.choices).get(value, value)  # type: ignore[arg-type]


def query_without(params: QueryDict, name: str, value: str) -> str:
    """Return the query string without one value of one parameter, back on the list's first page."""
    rest = first_page(params)
    rest.setlist(name, [other for other in params.getlist(name) if other != value])
    return f"?{rest.urlencode()}"
