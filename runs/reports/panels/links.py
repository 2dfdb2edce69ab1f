"""Links from a number to exactly its rows, in the parameters that `runs.filters` documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.urls import reverse

Value = str | int | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Links:
    """Links that keep what the page is narrowed to: ``scope`` has tenant, job and release where they are set.

    ``query`` is the page's own query, which its links to itself change in parts.
    """

    scope: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def asked(self) -> str:
        """The page's own query, as an address has it."""
        return _encode({name: value for name, value in self.query.items() if value})

    def runs(self, start: datetime, end: datetime, **filters: Value) -> str:
        """Return the link to the runs from ``start`` to before ``end`` that match the filters.

        The times are fixed, not ``range=24h``: the list must hold what was counted, also a minute later.
        """
        pairs = {"from": _stamp(start), "to": _stamp(end), **self.scope, **filters}
        return f"{reverse('runs:list')}?{_encode(pairs)}"

    def page(self, **changes: str | None) -> str:
        """Return the link to this page with some parameters changed, or left out where None."""
        pairs = {name: value for name, value in {**self.query, **changes}.items() if value}
        url = reverse("runs:overview")
        return f"{url}?{_encode(pairs)}" if pairs else url


def _encode(pairs: Mapping[str, Value]) -> str:
    return urlencode(pairs, doseq=True, safe=":")


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
