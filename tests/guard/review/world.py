"""A gate in memory that people decide at, and agents that come and go beside it, for tests of escalation."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import msgspec

from guardops.guard.bundle import SigningKey
from guardops.guard.decisions import (
    AddedBudget,
    CheckpointReply,
    CheckpointState,
    Consume,
    Decision,
    DecisionAction,
    DecisionChange,
    Grant,
    sign,
)
from guardops.guard.delivery import Delivery
from guardops.guard.desk import Desk
from guardops.guard.escalation import Escalation, Resolution
from guardops.guard.events import OnTimeout
from guardops.guard.ids import new_uuid7
from guardops.guard.policy import Policy
from guardops.guard.reporter import Reporter
from guardops.guard.session import AgentRun, Guard
from guardops.guard.spool import Spool
from guardops.guard.sqlite import SqliteStore
from guardops.guard.stores import Store

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
KEY = SigningKey(kid="k1", secret="the tenant's secret")
TOOLS = {
    "save": {"class": "write"},
    "pay": {"class": "side_effect", "approval": True},
    "hire": {"kind": "spawn"},
}


class Gate:
    """Takes events, hands out what is decided, grants it once. ``drops`` replies are lost on the way."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.decisions: dict[UUID, Decision] = {}
        self.states: dict[UUID, CheckpointState] = {}
        self.granted: dict[UUID, tuple[UUID, Grant]] = {}
        self.asked: list[str] = []
        self.headers = httpx.Headers()
        self.drops = 0
        self.away = False
        self.deaf = False
        """Whether it takes events and forgets them."""

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def handle(self, request: httpx.Request) -> httpx.Response:
        if self.away:
            raise httpx.ConnectError("away")
        if request.url.path.endswith("/events"):
            events = json.loads(gzip.decompress(request.content))
            self.events += [] if self.deaf else events
            return httpx.Response(200, json={"accepted": len(events), "duplicates": 0, "results": []})
        self.asked.append(f"{request.method} {request.url.path.rpartition('/')[2]}")
        self.headers = request.headers
        answer = self._consume(request) if request.method == "POST" else self._stands(request)
        if request.method == "POST" and self.drops:
            self.drops -= 1
            raise httpx.ReadError("dropped")
        return answer

    async def ahandle(self, request: httpx.Request) -> httpx.Response:
        return self.handle(request)

    def _stands(self, request: httpx.Request) -> httpx.Response:
        checkpoint_id = UUID(request.url.path.rpartition("/")[2])
        if not any(event["checkpoint_id"] == str(checkpoint_id) for event in self.of("checkpoint.opened")):
            return _problem(404, "unknown_checkpoint")
        decision = self.decisions.get(checkpoint_id)
        usual = CheckpointState.DELIVERED if decision else CheckpointState.OPEN
        reply = CheckpointReply(
            checkpoint_id=checkpoint_id,
            state=self.states.get(checkpoint_id, usual),
            expires_at=AT + timedelta(days=1),
            on_timeout=OnTimeout.STOP,
            decision=decision,
        )
        return _answer(200, reply)

    def _consume(self, request: httpx.Request) -> httpx.Response:
        checkpoint_id = UUID(request.url.path.split("/")[-2])
        wanted = msgspec.json.decode(request.content, type=Consume)
        decision = self.decisions[checkpoint_id]
        held = self.granted.get(wanted.decision_id)
        if held is None:
            grant = Grant(
                decision=decision,
                attempt_id=wanted.attempt_id,
                attempt=decision.attempt + 1,
                consumed_at=AT,
            )
            held = self.granted[wanted.decision_id] = wanted.attempt_id, grant
        if held[0] != wanted.attempt_id:
            return _problem(409, "already_consumed", f"The attempt {held[0]} has it.")
        return _answer(200, held[1])


def _problem(status: int, code: str, detail: str = "") -> httpx.Response:
    return _answer(status, {"code": code, "detail": detail})


def _answer(status: int, body: object) -> httpx.Response:
    return httpx.Response(status, stream=httpx.ByteStream(msgspec.json.encode(body)))


class World:
    """A machine with one file, its processes, and the gate."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gate = Gate()
        self.now = AT
        self.paused: list[float] = []
        self.stores: list[SqliteStore] = []
        self.guards: list[Guard] = []

    def guard(self, *, memory: bool = False, tools: Any = None, **options: Any) -> Guard:
        """Start a process."""
        limits = {name: options.pop(name) for name in list(options) if name.startswith("max_")}
        store: Store | None = None
        if not memory:
            store = SqliteStore(self.folder / "runs.sqlite3", now=lambda: self.now.timestamp())
            self.stores.append(store)
        delivery = Delivery("http://gate.example", "k", transport=httpx.MockTransport(self.gate.handle))
        settings: dict[str, Any] = {
            "reporter": Reporter(Spool(self.folder / "spool"), delivery, threaded=False),
            "desk": Desk(
                "http://gate.example",
                "go_k_s",
                transport=httpx.MockTransport(self.gate.handle),
                async_transport=httpx.MockTransport(self.gate.ahandle),
            ),
            "signing": [KEY],
            "jitter": lambda: 1.0,
            "now": lambda: self.now,
            "sleep": self.sleep,
            "asleep": self.asleep,
        }
        policy = Policy.from_mapping({"tools": TOOLS if tools is None else tools} | limits)
        guard = Guard(policy, store=store, **(settings | options))
        guard._means.terms.clock = lambda: self.now.timestamp()
        self.guards.append(guard)
        return guard

    def kill(self) -> None:
        """Kill every process."""
        for store in self.stores:
            store.close()
        self.stores.clear()
        self.guards.clear()

    def sleep(self, seconds: float) -> None:
        self.paused.append(seconds)
        self.now += timedelta(seconds=seconds)
        self.told()

    async def asleep(self, seconds: float) -> None:
        self.sleep(seconds)

    def told(self) -> Gate:
        """Let what was reported arrive."""
        for guard in self.guards:
            assert guard.reporter is not None
            while guard.reporter.tick() == 0:
                pass
        return self.gate

    def decide(
        self, waits: Escalation, action: DecisionAction, key: SigningKey = KEY, **fields: Any
    ) -> Decision:
        """Decide, past the time in which it can be undone."""
        self.told()
        decision = Decision(
            decision_id=new_uuid7(),
            checkpoint_id=waits.checkpoint_id,
            tenant="acme",
            action=action,
            artifact_digest=waits._one.artifact_digest,
            version=1,
            expires_at=waits.expires_at,
            run_id=waits.run_id,
            attempt=waits.attempt,
            reason="because",
        )
        decision = sign(msgspec.structs.replace(decision, **fields), key)
        self.gate.decisions[waits.checkpoint_id] = decision
        return decision


def resolved(found: Resolution | None) -> tuple[Resolution, AgentRun]:
    """Return what follows, and the next attempt, which must have begun."""
    assert found is not None
    assert found.run is not None
    return found, found.run


def added(steps: int = 0, seconds: int = 0, cost: str = "0") -> DecisionChange:
    return DecisionChange(budget=AddedBudget(steps=steps, seconds=seconds, cost=Decimal(cost)))
