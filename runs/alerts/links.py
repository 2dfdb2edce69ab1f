"""Where an incident leads: the list that shows exactly what it is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from django.urls import reverse

from .access import INSTALLATION

if TYPE_CHECKING:
    from datetime import datetime

    from runs.models import Incident

_LISTS = {
    "": ("runs:list", "Show its runs"),
    "live": ("runs:live", "Show its live runs"),
    "review": ("runs:review-queue", "Show its checkpoints"),
    "guards": ("policies:guards", "Look at its guards"),
    "storage": ("runs:storage", "Look at the storage"),
    "health": ("runs:health", "Look at the system"),
    "source": ("runs:source", "Look at the source"),
}


@dataclass(frozen=True, slots=True)
class Link:
    """An address and what it is called."""

    href: str
    label: str


def link_of(incident: Incident) -> Link | None:
    """Return where the incident leads; None where its list is one that this release does not have."""
    query = {name: str(value) for name, value in incident.query.items()}
    name = query.pop("list", "")
    if not incident.query or name not in _LISTS:
        return None
    view, label = _LISTS[name]
    if name == "source":
        return Link(_address(incident, reverse(view, args=[query["kind"], query["name"]]), {}), label)
    return Link(_address(incident, reverse(view), query), label)


def runs_between(incident: Incident, start: datetime, end: datetime) -> str:
    """Return the incident's runs of some other time."""
    query = {name: str(value) for name, value in incident.query.items() if name not in ("list", "range")}
    query |= {"from": start.isoformat(), "to": end.isoformat()}
    return _address(incident, reverse("runs:list"), query)


def silence_of(incident: Incident) -> str:
    """Return the form of a silence that covers the incident."""
    query = {"rule": incident.rule, "subject": incident.subject}
    place = {} if incident.tenant else {"tenant": INSTALLATION}
    return _address(incident, reverse("runs:silence-new"), place | query)


def _address(incident: Incident, path: str, query: dict[str, str]) -> str:
    said = {name: value for name, value in query.items() if value}
    if incident.tenant is not None:
        said["tenant"] = incident.tenant.slug
    return f"{path}?{urlencode(said)}" if said else path
