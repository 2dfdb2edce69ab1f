"""Work that crosses processes, from the run that hands it over to the run that takes it on."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from guardops.guard.bundle import SigningKey
from guardops.guard.calls import Stopped
from guardops.guard.delivery import Delivery
from guardops.guard.events import Action, ChainLink, Envelope
from guardops.guard.policy import Policy
from guardops.guard.reasons import Reason
from guardops.guard.reporter import Reporter
from guardops.guard.session import Guard
from guardops.guard.spool import Spool
from guardops.guard.sqlite import SqliteStore
from tests.guard.agent import STARTED_AT

from .gate import Gate

KEY = SigningKey(kid="k1", secret="s3cret")


def guard(**options: Any) -> Guard:
    policy = Policy.from_mapping({"max_seconds": 600, "hops": 3, "descendants": 4})
    return Guard(policy, now=lambda: STARTED_AT, **options)


def sent(envelope: object) -> Envelope:
    """Return an envelope as it comes out of a queue."""
    return msgspec.json.decode(msgspec.json.encode(envelope), type=Envelope)


def test_work_goes_on_under_its_root_and_within_what_is_left(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / "guard.db") for _ in range(2)]
    lead = guard(store=stores[0], signing=[KEY]).run(job_type="research", agent="lead", deadline=90)
    envelope = sent(lead.envelope({"find": "it"}, key=KEY))
    worker = guard(store=stores[1], signing=[KEY]).run(job_type="read", agent="worker", envelope=envelope)
    assert (worker.who.root_task_id, worker.who.parent_run_id) == (lead.who.root_task_id, lead.who.run_id)
    assert (worker.state.hops, worker.state.deadline) == (2, 90)
    assert worker.state.budgets.descendants.left == 3, "charged at the root"
    lineage = worker.end().lineage
    assert lineage is not None
    assert [link.agent for link in lineage.chain] == ["lead"]
    assert (lineage.root, lineage.parent) == (lead.who.root_task_id, str(lead.who.run_id))
    lead.stop()
    late = guard(store=stores[1], signing=[KEY]).run(job_type="read", envelope=envelope)
    assert late.check("read", {}).reason is Reason.OPERATOR_STOP
    for store in stores:
        store.close()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"hops_remaining": 0}, "hop_budget"),
        ({"descendants_budget": 0}, "descendants_budget"),
        ({"deadline": STARTED_AT - timedelta(seconds=1)}, "deadline"),
        ({"chain": [ChainLink(agent=agent, package_hash="p") for agent in "abab"]}, "lineage_ping_pong"),
    ],
)
def test_refused_work_begins_no_run_and_is_told(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    gate = Gate()
    delivery = Delivery("http://gate.example", "k", transport=gate.transport)
    reporter = Reporter(Spool(tmp_path / "spool"), delivery, threaded=False)
    with guard(reporter=reporter, tenant="acme") as guarded:
        with pytest.raises(Stopped) as stopped:
            guarded.run(job_type="read", agent="a", envelope=Envelope(root_task_id="root", **fields))
        while reporter.tick() == 0:
            pass
    assert (stopped.value.action, stopped.value.reason) == (Action.HALT, reason)
    [event] = gate.taken
    assert (event["type"], event["reason"], event["tenant"]) == ("work.refused", reason, "acme")
    assert (event["job_type"], event["agent"], event["envelope"]["root_task_id"]) == ("read", "a", "root")


def test_forged_work_is_refused_where_the_tenant_has_a_secret() -> None:
    envelope = sent(guard().run(job_type="research").envelope("it"))
    assert guard().run(job_type="read", envelope=envelope).check("read", {}).allowed
    with pytest.raises(Stopped) as stopped:
        guard(signing=[KEY]).run(job_type="read", envelope=envelope)
    assert stopped.value.reason is Reason.REQUEUE_REFUSED
