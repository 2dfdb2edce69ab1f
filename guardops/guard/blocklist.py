"""Blocked sources, found by name.

A look-up takes as many steps as the host has labels, however long the list is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from guardops.guard.domains import normal_host
from guardops.guard.fields import PolicyError, read_choice, read_flag, read_list, require_number

_MOST_CALLS = 500


class BlockAction(StrEnum):
    """What a blocked source is held to: nothing at all, or ``limit`` calls a run."""

    BLOCK = "block"
    LIMIT = "limit"


class Block(Struct, frozen=True):
    """A source that people have blocked, or limited to ``limit`` calls a run."""

    kind: str
    """``domain`` or ``tool``."""
    name: str
    action: BlockAction = BlockAction.BLOCK
    limit: int = 0
    exact: bool = False
    """Whether only this host is meant, and not what lies below it."""
    until: datetime | None = None
    """When it ends by itself, in a running run as well: it never meant more."""

    def holds(self, now: datetime) -> bool:
        """Say whether it still counts at ``now`` (UTC)."""
        return self.until is None or now < self.until


class Blocklist:
    """An immutable list of blocks with an index by name, made once and shared by all runs.

    Two lists are equal when they are one: comparing thousands of blocks is nothing for the way of a call.
    """

    __slots__ = ("_domains", "_hosts", "_joined", "_tools", "blocks")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks = tuple(blocks)
        self._tools: dict[str, tuple[Block, ...]] = {}
        self._hosts: dict[str, tuple[Block, ...]] = {}
        self._domains: dict[str, tuple[Block, ...]] = {}
        for block in self.blocks:
            index = self._tools if block.kind == "tool" else self._hosts if block.exact else self._domains
            index[block.name] = (*index.get(block.name, ()), block)
        self._joined: tuple[Blocklist, Blocklist] | None = None
        """The list that was joined last, and what came of it."""

    def on(self, tool: str, hosts: Iterable[str]) -> Iterator[Block]:
        """Yield the blocks that a call to ``tool`` which touches ``hosts`` may run into."""
        if self._tools:
            yield from self._tools.get(tool, ())
        for host in hosts:
            yield from self._hosts.get(host, ())
            while host and self._domains:
                yield from self._domains.get(host, ())
                host = host.partition(".")[2]

    def joined(self, newer: Blocklist) -> Blocklist:
        """Return what either list blocks: one of the two where it holds all of the other.

        The result is kept, since all runs that began with one list meet the next one alike.
        """
        if newer is self or not newer.blocks:
            return self
        if not self.blocks:
            return newer
        if self._joined is None or self._joined[0] is not newer:
            self._joined = (newer, self._with(newer))
        return self._joined[1]

    def _with(self, newer: Blocklist) -> Blocklist:
        held = set(newer.blocks)
        missing = [block for block in self.blocks if block not in held]
        if len(self.blocks) - len(missing) == len(held):
            return self
        return Blocklist((*newer.blocks, *missing)) if missing else newer

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.blocks)


NO_BLOCKS = Blocklist()


def read_blocks(name: str, value: object) -> Blocklist:
    """Read the ``blocked`` of a policy document: domains, or objects with kind and name.

    Raises :class:`PolicyError` naming the field that is wrong.
    """
    return Blocklist(_block(f"{name}.{index}", item) for index, item in enumerate(read_list(name, value)))


def _block(name: str, value: object) -> Block:
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise PolicyError(name, "must be a domain, or an object with kind and name")
    kind, source = str(value.get("kind", "domain")), value["name"]
    if kind not in ("domain", "tool"):
        raise PolicyError(f"{name}.kind", "must be domain or tool")
    if kind == "domain":
        source = normal_host(source)
        if source is None:
            raise PolicyError(f"{name}.name", "is no domain")
    action = read_choice(f"{name}.action", value.get("action", "block"), BlockAction)
    limit = value.get("limit", 0)
    require_number(f"{name}.limit", limit, 0, _MOST_CALLS, whole=True)
    exact = read_flag(f"{name}.exact", value.get("exact", False))
    return Block(kind, source, action, limit, exact)
