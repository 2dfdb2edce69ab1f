"""What the audit trail can show. Each app registers its audited models when it is ready."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Q

from .names import Names


@dataclass(frozen=True, slots=True)
class Kind:
    """How the trail shows the changes of one audited model, and who may read them."""

    slug: str
    """Its name in addresses; kinds are read in the order of their slugs."""
    noun: str
    """What it is called in a sentence: ``the API key``."""
    model: Any
    """The audited model."""
    name: Callable[[Any, Names], str]
    """Names the thing that an audit row is about."""
    of_organisations: Callable[[Collection[int]], Q]
    """Finds the audit rows that an admin of these organisations may read, by their ids."""
    of_tenants: Callable[[Collection[int]], Q] | None = None
    """Finds those that an admin of these tenants may read; None where that takes the whole organisation."""
    milestones: Mapping[str, str] = field(default_factory=dict)
    """Verbs for changes that fill in an empty field: ``{"revoked_at": "revoked"}``."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """What fields are called, where their own names read badly in a sentence."""

    @property
    def event(self) -> Any:
        """The model of its audit rows."""
        return self.model.pgh_event_model

    @property
    def label(self) -> str:
        return self.noun.removeprefix("the ").removeprefix("a ").capitalize()


_kinds: dict[str, Kind] = {}


def register(*kinds: Kind) -> None:
    """Add kinds to the trail; raises ValueError for a slug or a model that is there already."""
    for kind in kinds:
        if kind.slug in _kinds or any(kind.model is known.model for known in _kinds.values()):
            raise ValueError(f"The trail shows {kind.slug} already.")
        _kinds[kind.slug] = kind


def kinds() -> list[Kind]:
    """Return all kinds, ordered by their slugs."""
    return sorted(_kinds.values(), key=lambda kind: kind.slug)
