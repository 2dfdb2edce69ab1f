"""Addresses of lists. Filters, order and range of a list are in its address, so that it can be passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.http import QueryDict

_PLACES = ("after", "before", "page")  # name one page of a list
_ENDS = ("from", "to")


def tidy(params: QueryDict) -> QueryDict:
    """Return the parameters that say something: forms send empty ones, and ends of a range left behind."""
    tidied = params.copy()
    named = params.get("range")
    for name, values in params.lists():
        said = [value for value in values if value]
        if said and not (named and name in _ENDS):
            tidied.setlist(name, said)
        else:
            del tidied[name]
    return tidied


def first_page(params: QueryDict) -> QueryDict:
    """Return the parameters of the same list from its beginning."""
    return without(params, *_PLACES)


def wider(params: QueryDict) -> str:
    """Return the query of the same list over the longest range; empty where it is that already."""
    if params.get("range") == "90d":
        return ""
    longest = without(first_page(params), *_ENDS)
    longest["range"] = "90d"
    return f"?{longest.urlencode()}"


def without(params: QueryDict, *names: str) -> QueryDict:
    """Return a copy of the parameters but for those of these names."""
    rest = params.copy()
    for name in names:
        rest.pop(name, None)
    return rest
