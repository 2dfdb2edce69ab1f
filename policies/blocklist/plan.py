"""What blocking would do, told before it is done."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from policies.errors import InvalidSource
from policies.models import BlockedSource
from policies.names import allowed_domains, canonical_source
from policies.publish.sources import Outcome, Reach, says_the_same

from .given import Given
from .looks import Look, look_of

State: TypeAlias = Literal["new", "replaces", "already", "twice", "refused"]
Key: TypeAlias = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class Planned:
    """A line, and what becomes of it; ``name`` is the one spelling of the source, empty where refused."""

    given: Given
    state: State
    name: str = ""
    standing: BlockedSource | None = None
    """What it replaces, or what says the same already."""
    error: InvalidSource | None = None

    @property
    def look(self) -> Look:
        return look_of(self.name)

    @property
    def changes(self) -> bool:
        return self.state in ("new", "replaces")


def plan_blocks(reach: Reach, lines: Sequence[Given]) -> list[Planned]:
    """Say of each line what blocking it for ``reach`` would do, in two queries at most. Writes nothing."""
    allowed = allowed_domains(reach.organisation)
    named = [_named(line, allowed) for line in lines]
    names = {found[1] for found, _ in named if found}
    on_the_list = BlockedSource.objects.filter(
        organisation=reach.organisation, tenant=reach.tenant, removed_at=None, name__in=names
    )
    standing = {(source.kind, source.name, source.exact): source for source in on_the_list}
    seen: set[Key] = set()
    planned = []
    for line, (key, error) in zip(lines, named, strict=True):
        planned.append(_planned(line, key, error, standing.get(key) if key else None, seen))
        seen |= {key} if key else set()
    return planned


def results_of(lines: Sequence[Given], outcomes: Sequence[Outcome]) -> list[Planned]:
    """Return what became of each line; ``outcomes`` are of those that could be read, in order."""
    left = iter(outcomes)
    return [_result(line, next(left)) if line.wanted else _refused(line, line.error) for line in lines]


def _result(line: Given, outcome: Outcome) -> Planned:
    if outcome.source is None:
        return _refused(line, outcome.error)
    state: State = "already" if outcome.already else "new"
    return Planned(line, state, outcome.source.name, outcome.source)


def _named(line: Given, allowed: Collection[str]) -> tuple[Key | None, InvalidSource | None]:
    wanted = line.wanted
    if wanted is None:
        return None, line.error
    try:
        name = canonical_source(wanted.kind, wanted.name, exact=wanted.exact, allowed=allowed)
    except InvalidSource as error:
        return None, error
    return (wanted.kind, name, wanted.exact), None


def _planned(
    line: Given, key: Key | None, error: InvalidSource | None, standing: BlockedSource | None, seen: set[Key]
) -> Planned:
    if key is None or line.wanted is None:
        return _refused(line, error)
    if key in seen:
        return Planned(line, "twice", key[1])
    if standing is None:
        return Planned(line, "new", key[1])
    return Planned(line, "already" if says_the_same(standing, line.wanted) else "replaces", key[1], standing)


def _refused(line: Given, error: InvalidSource | None) -> Planned:
    return Planned(line, "refused", error=error)
