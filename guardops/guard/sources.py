"""Where a run gets its material from: calls a registrable domain, pages a listing, and what is blocked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec import Struct

from guardops.guard import domains
from guardops.guard.blocklist import Block, BlockAction, Blocklist
from guardops.guard.domains import Place
from guardops.guard.events import Source, SourceKind
from guardops.guard.reasons import Reason
from guardops.guard.texts import short_digest

MAX_NAMED = 20


class Page(Struct, frozen=True):
    """One page of a listing. ``key`` and ``page`` are digests, since an address may hold a secret."""

    listing: str
    key: str
    page: str


class Visit(Struct, frozen=True):
    """What one call touches: registrable domains, hosts, and pages of listings."""

    domains: set[str]
    hosts: set[str]
    pages: list[Page]


NO_VISIT = Visit(set(), set(), [])


@dataclass(slots=True)
class Tally:
    """How often a source was called, and how many bytes it delivered."""

    calls: int = 0
    size: int = 0


@dataclass(slots=True)
class SourceBook:
    """The run's count of every source. Peaks count what was proposed, so that refused calls show."""

    domains: dict[str, Tally] = field(default_factory=dict)
    tools: dict[str, Tally] = field(default_factory=dict)
    listings: dict[str, set[str]] = field(default_factory=dict)
    """The pages read of each listing, both by digest."""
    peak_domain: int = 0
    peak_listing: int = 0
    hosts: dict[str, int] = field(default_factory=dict)
    """Calls by host, for limits that lie on less than a whole domain."""

    def refusal(self, visit: Visit, domain_cap: int, listing_cap: int) -> tuple[Reason, str] | None:
        """Return why a visit would go beyond a cap, and which source's it is."""
        for name in visit.domains:
            tally = self.domains.get(name)
            calls = tally.calls if tally else 0
            self.peak_domain = max(self.peak_domain, calls + 1)
            if calls + 1 > domain_cap:
                return Reason.SOURCE_CAP, name
        for page in visit.pages:
            pages = self.listings.get(page.key, set())
            count = len(pages) if page.page in pages else len(pages) + 1
            self.peak_listing = max(self.peak_listing, count)
            if count > listing_cap:
                return Reason.LISTING_CAP, page.listing
        return None

    def count(self, tool: str, visit: Visit) -> None:
        """Count a call that is about to run."""
        _tally(self.tools, tool).calls += 1
        for name in visit.domains:
            _tally(self.domains, name).calls += 1
        for host in visit.hosts:
            self.hosts[host] = self.hosts.get(host, 0) + 1
        for page in visit.pages:
            self.listings.setdefault(page.key, set()).add(page.page)

    def add_bytes(self, tool: str, visit: Visit, size: int) -> None:
        """Add the size of a result to what its sources delivered."""
        if size:
            self.tools[tool].size += size
            for name in visit.domains:
                self.domains[name].size += size

    def count_redirect(self, place: Place) -> int:
        """Count a redirect's target and return the calls to its domain so far."""
        tally = _tally(self.domains, place.source)
        tally.calls += 1
        self.hosts[place.host] = self.hosts.get(place.host, 0) + 1
        self.peak_domain = max(self.peak_domain, tally.calls)
        return tally.calls

    def calls_on(self, block: Block) -> int:
        """Return how often what a block is about was called."""
        name = block.name
        if block.kind == "tool":
            return self.tools[name].calls if name in self.tools else 0
        if block.exact:
            return self.hosts.get(name, 0)
        if name in self.domains:
            return self.domains[name].calls
        below = f".{name}"
        return sum(calls for host, calls in self.hosts.items() if host == name or host.endswith(below))

    def named(self, proposed: Iterable[tuple[SourceKind, str]], *, quarantined: bool) -> list[Source]:
        """Return at most 20 sources as the wire carries them: domains before tools, the most called first."""
        marked = set(proposed)
        rows = [(SourceKind.DOMAIN, name, tally) for name, tally in self.domains.items()]
        rows += [(SourceKind.TOOL, name, tally) for name, tally in self.tools.items()]
        rows.sort(
            key=lambda row: ((row[0], row[1]) not in marked, row[0] is SourceKind.TOOL, -row[2].calls, row[1])
        )
        return [
            Source(
                kind=kind,
                name=name[:253] or "?",
                calls=tally.calls,
                bytes=tally.size,
                quarantined=quarantined and (kind, name) in marked,
                proposed=(kind, name) in marked,
            )
            for kind, name, tally in rows[:MAX_NAMED]
        ]


def _tally(tallies: dict[str, Tally], name: str) -> Tally:
    found = tallies.get(name)
    if found is None:
        found = tallies[name] = Tally()
    return found


def visit_of(args: Mapping[str, Any]) -> Visit:
    """Return what a call with these arguments touches: every text in them that is an http(s) URL."""
    urls = domains.urls_in(args)
    if not urls:
        return NO_VISIT
    names: set[str] = set()
    hosts: set[str] = set()
    pages: list[Page] = []
    beside = [(key, str(args[key])) for key in args.keys() & domains.PAGE_KEYS]
    for url in urls:
        place = domains.place_of(url)
        if place is not None:
            hosts.add(place.host)
            names.add(place.source)
            page = repr((place.page, *sorted(beside)))
            pages.append(Page(place.listing, short_digest(place.listing), short_digest(page)))
    return Visit(names, hosts, pages)


def blocked_by(
    blocked: Blocklist, tool: str, hosts: Iterable[str], book: SourceBook, now: datetime
) -> Block | None:
    """Return the block that a call to ``tool`` touching ``hosts`` runs into at ``now`` (UTC), if any."""
    for block in blocked.on(tool, hosts):
        if block.holds(now) and (block.action is BlockAction.BLOCK or book.calls_on(block) >= block.limit):
            return block
    return None
