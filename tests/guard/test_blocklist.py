from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from guardops.guard.blocklist import Block, BlockAction, Blocklist, read_blocks
from guardops.guard.fields import PolicyError
from guardops.guard.policy import Policy
from guardops.guard.session import Guard
from guardops.guard.sources import SourceBook, Visit, blocked_by
from tests.guard.agent import STARTED_AT, Agent, said

EVIL = Block("domain", "evil.example")


def found(blocked: Blocklist, host: str, tool: str = "fetch") -> list[str]:
    return [block.name for block in blocked.on(tool, [host])]


def test_a_domain_is_found_for_all_that_lies_below_it() -> None:
    blocked = Blocklist([EVIL])
    assert found(blocked, "evil.example") == ["evil.example"]
    assert found(blocked, "a.b.evil.example") == ["evil.example"]
    assert found(blocked, "notevil.example") == found(blocked, "example") == []


def test_an_exact_host_is_found_for_itself_alone() -> None:
    blocked = Blocklist([Block("domain", "a.example", exact=True)])
    assert found(blocked, "a.example") == ["a.example"]
    assert found(blocked, "b.a.example") == []


def test_a_tool_is_no_host_and_a_host_no_tool() -> None:
    blocked = Blocklist([Block("tool", "exec"), EVIL])
    assert found(blocked, "exec") == []
    assert found(blocked, "a.example", tool="exec") == ["exec"]
    assert found(blocked, "a.example", tool="evil.example") == []


class Counted(dict[str, Any]):
    """Counts what is looked up."""

    looked_up = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.looked_up += 1
        return super().get(key, default)


def test_a_look_up_costs_its_labels_however_long_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    def cost(blocks: int) -> int:
        blocked = Blocklist(Block("domain", f"d{number}.example") for number in range(blocks))
        for name in ("_tools", "_hosts", "_domains"):
            setattr(blocked, name, Counted(getattr(blocked, name)))
        monkeypatch.setattr(Counted, "looked_up", 0)
        for number in range(1_000):
            found(blocked, f"www.site{number}.example")
        return Counted.looked_up

    assert cost(10_000) == cost(10) == 1_000 * (1 + 3)


def test_a_block_ends_at_its_time() -> None:
    ends = STARTED_AT + timedelta(seconds=60)
    blocked = Blocklist([Block("domain", "evil.example", until=ends)])
    policy = replace(Policy(), blocked=blocked)
    agent = Agent(Guard(policy, now=lambda: STARTED_AT))
    agent.now = 60.0
    assert said(agent.check("fetch", {"url": "https://evil.example/"})) == "continue"
    agent.now = 59.0
    assert said(agent.check("fetch", {"url": "https://evil.example/2"})) == "blocked_source"


@pytest.mark.parametrize(
    ("block", "hosts", "hit"),
    [
        (Block("domain", "a.example"), ["x.a.example", "y.a.example"], True),
        (Block("domain", "x.a.example"), ["x.a.example", "z.x.a.example"], True),
        (Block("domain", "x.a.example"), ["x.a.example", "y.a.example"], False),
        (Block("domain", "a.example", exact=True), ["a.example", "x.a.example"], False),
        (Block("domain", "a.example", exact=True), ["a.example", "a.example"], True),
    ],
)
def test_a_limit_counts_what_it_lies_on(block: Block, hosts: list[str], hit: bool) -> None:
    limited = msgspec.structs.replace(block, action=BlockAction.LIMIT, limit=2)
    book = SourceBook()
    for host in hosts:
        book.count("fetch", Visit({"a.example"}, {host}, []))
    assert (blocked_by(Blocklist([limited]), "fetch", [block.name], book, STARTED_AT) is not None) is hit


def test_a_longer_list_stands_for_the_one_it_holds() -> None:
    older, newer = Blocklist([EVIL]), Blocklist([Block("tool", "exec"), Block("domain", "evil.example")])
    assert older.joined(newer) is newer
    assert Blocklist().joined(newer) is newer
    assert newer.joined(Blocklist()) is newer
    assert newer.joined(older) is newer


def test_an_equal_list_changes_nothing() -> None:
    older = Blocklist([EVIL])
    assert older.joined(Blocklist([EVIL])) is older


def test_what_a_newer_list_lacks_is_kept_and_joined_once() -> None:
    older, newer = Blocklist([EVIL]), Blocklist([Block("domain", "other.example")])
    joined = older.joined(newer)
    assert {block.name for block in joined} == {"evil.example", "other.example"}
    assert older.joined(newer) is joined


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ("a.example", "blocked"),
        ([{"name": 3}], "blocked.0"),
        ([{"name": "a.example", "kind": "person"}], "blocked.0.kind"),
        (["a.example", ""], "blocked.1.name"),
        ([{"name": "a.example", "action": "pass"}], "blocked.0.action"),
        ([{"name": "a.example", "limit": 501}], "blocked.0.limit"),
        ([{"name": "a.example", "exact": 1}], "blocked.0.exact"),
    ],
)
def test_what_makes_no_sense_is_refused(document: Any, field: str) -> None:
    with pytest.raises(PolicyError) as refused:
        read_blocks("blocked", document)
    assert refused.value.field == field
