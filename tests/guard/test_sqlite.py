"""The default store of an agent process, within one process: restarts, sharing, faults, what it writes."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any
from uuid import UUID

import pytest

from guardops.guard.events import Action, Outcome
from guardops.guard.policy import Policy
from guardops.guard.reasons import Reason
from guardops.guard.session import Guard, RunGuard
from guardops.guard.sqlite import RETRY_S, SqliteStore
from tests.guard.agent import STARTED_AT, allowed, said

RUN = UUID("01958c1e-0000-7000-8000-000000000001")
OTHER = UUID("01958c1e-0000-7000-8000-000000000002")
TOOLS = {"save": {"class": "write"}, "pay": {"class": "side_effect"}, "rm": {"forbidden": True}}


class Machine:
    """One file, and processes that come and go with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 1_000_000.0
        self.clock = 0.0
        self.stores: list[SqliteStore] = []

    def store(self, **options: Any) -> SqliteStore:
        """Start a process: a store with an owner of its own."""
        store = SqliteStore(self.path, now=lambda: self.now, clock=lambda: self.clock, **options)
        self.stores.append(store)
        return store

    def run(self, store: SqliteStore | None = None, /, **options: Any) -> RunGuard:
        """Start a run, in a process of its own unless told."""
        limits = {name: options.pop(name) for name in list(options) if name.startswith("max_")}
        policy = Policy.from_mapping({"tools": TOOLS} | limits | options.pop("policy", {}))
        guard = Guard(policy, store=store or self.store(), jitter=lambda: 0.0, now=lambda: STARTED_AT)
        told = {"job_type": "t", "root_task_id": "root", "run_id": RUN, "clock": lambda: 0.0}
        return guard.run(**(told | options))

    def kill(self) -> None:
        """Kill every process that was started so far."""
        for store in self.stores:
            store.close()
        self.stores.clear()

    def rows(self, query: str) -> list[Any]:
        """Read the file."""
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(query).fetchall()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "state" / "guard.db")
    yield machine
    machine.kill()


def go(run: RunGuard, tool: str, result: Any = "ok", /, **args: Any) -> Any:
    """Make a call that must be allowed."""
    check = run.check(tool, args)
    assert check.ticket is not None, check
    return run.observe(check.ticket, result=result)


# -- restarts --------------------------------------------------------------------------------------------


def test_a_run_that_is_started_again_goes_on_with_its_counts(machine: Machine) -> None:
    run = machine.run()
    go(run, "read", x=1)
    run.turn(100, 10, "0.25")
    machine.kill()
    again = machine.run()
    go(again, "read", "b", x=2)
    again.turn(100, 10, "0.25")
    ended = again.end(Outcome.COMPLETED)
    assert (ended.steps, ended.tool_calls, ended.turns, str(ended.cost)) == (2, 2, 2, "0.5")
    assert ended.tokens.input == 200
    assert [row.count for row in ended.ledger] == [1, 1]


def test_another_run_of_the_root_takes_up_what_the_dead_one_knew_but_not_its_bill(machine: Machine) -> None:
    run = machine.run()
    go(run, "read", [], x=1)
    run.turn(100, 10, "0.25")
    machine.kill()
    again = machine.run(run_id=OTHER, attempt=2)
    assert said(again.check("read", {"x": 1})) == "tool_no_progress"
    assert again.end(Outcome.COMPLETED).cost == 0
    assert machine.run(run_id=RUN, job_type="other").state.budgets.cost.settled == 250_000


def test_a_run_that_is_alive_keeps_what_it_knows_to_itself(machine: Machine) -> None:
    run = machine.run()
    go(run, "read", [], x=1)
    assert allowed(machine.run(run_id=OTHER).check("read", {"x": 1}))


def test_a_sub_run_does_not_take_up_its_parents_part(machine: Machine) -> None:
    go(machine.run(), "read", [], x=1)
    machine.kill()
    assert allowed(machine.run(run_id=OTHER, parent_run_id=RUN).check("read", {"x": 1}))


def test_a_run_that_ended_leaves_only_what_its_root_must_know(machine: Machine) -> None:
    run = machine.run()
    go(run, "pay", to="a")
    go(run, "read", [], x=1)
    run.end(Outcome.COMPLETED)
    assert machine.rows("SELECT * FROM run") == machine.rows("SELECT * FROM ledger") == []
    again = machine.run()
    assert allowed(again.check("read", {"x": 1}))
    assert said(again.check("pay", {"to": "a"})) == "duplicate_side_effect"


def test_a_halted_run_id_is_refused_in_every_later_process_until_it_is_granted(machine: Machine) -> None:
    machine.run().check("rm", {})
    machine.kill()
    again = machine.run()
    assert (again.check("read", {}).action, again.end().halt_reason) == (Action.HALT, "requeue_refused")
    assert machine.run(root_task_id="elsewhere").end().halt_reason == "requeue_refused"
    machine.kill()
    granted = machine.run(resumed=True)
    assert allowed(granted.check("read", {}))
    machine.kill()
    assert allowed(machine.run().check("read", {"x": 1})), "the grant was used, and the process died again"


def test_a_refused_start_does_not_halt_the_runs_that_are_at_work(machine: Machine) -> None:
    store = machine.store()
    sibling = machine.run(store, run_id=OTHER)
    escalated = machine.run(store)
    escalated.report(Reason.TOOL_AUTH_ERROR)
    escalated.end()
    assert machine.run(store).check("read", {}).ticket is None
    assert allowed(sibling.check("read", {}))


def test_a_resumed_attempt_keeps_its_history_and_begins_its_own_bill(machine: Machine) -> None:
    run = machine.run()
    go(run, "read", [], x=1)
    run.turn(100, 10, "0.25")
    run.report(Reason.TOOL_AUTH_ERROR)
    run.end()
    machine.kill()
    resumed = machine.run(run_id=OTHER, attempt=2, resumed=True)
    assert said(resumed.check("read", {"x": 1})) == "tool_no_progress"
    assert (resumed.counts.cost, resumed.ladder.standing) == (0, None)


def test_a_forced_answer_stays_forced_after_a_restart(machine: Machine) -> None:
    run = machine.run(max_steps=1)
    assert go(run, "read").action is Action.FORCE_ANSWER
    machine.kill()
    again = machine.run(max_steps=1)
    assert again.reserve_turn().action is Action.FORCE_ANSWER
    again.turn(10, 10)
    assert again.end().outcome is Outcome.COMPLETED_FORCED


def test_a_root_is_nudged_once_whatever_dies(machine: Machine) -> None:
    run = machine.run()
    go(run, "read", [], x=1)
    assert run.check("read", {"x": 1}).action is Action.NUDGE
    machine.kill()
    again = machine.run()
    assert again.check("read", {"x": 1}).action is Action.REFUSE
    assert [item.action for item in again.end().interventions] == [Action.NUDGE, Action.REFUSE]


def test_an_uncertain_write_is_refused_until_somebody_has_looked(machine: Machine) -> None:
    for happened, then in ((False, "continue"), (True, "duplicate_side_effect")):
        machine.run(root_task_id=str(happened)).check("pay", {"to": "a"})
        machine.kill()
        assert said(machine.run(root_task_id=str(happened)).check("pay", {"to": "a"})) == "uncertain_write"
        machine.kill()
        granted = machine.run(root_task_id=str(happened), resumed=True)
        granted.reconcile("pay", {"to": "a"}, happened=happened)
        machine.kill()
        assert said(machine.run(root_task_id=str(happened)).check("pay", {"to": "a"})) == then
        machine.kill()
        machine.run(root_task_id=str(happened), resumed=True).end()


def test_a_reserved_turn_is_charged_in_full_when_the_process_dies(machine: Machine) -> None:
    machine.run(max_cost="1").reserve_turn(tokens=500, cost="0.75")
    machine.kill()
    again = machine.run(max_cost="1")
    budgets = again.state.budgets
    assert (budgets.tokens.settled, budgets.cost.settled, budgets.turns.settled) == (500, 750_000, 1)
    assert said(again.reserve_turn(cost="0.50")) == "cost_budget"
    assert str(again.end().cost) == "0.75"


def test_a_sub_run_continues_its_own_budgets_too(machine: Machine) -> None:
    store = machine.store()
    machine.run(store, run_id=OTHER)
    child = machine.run(store, max_steps=2)
    go(child, "read", x=1)
    machine.kill()
    assert said(go(machine.run(max_steps=2), "read", "b", x=2)) == "step_budget"


def test_the_first_run_started_again_brings_its_own_limits(machine: Machine) -> None:
    go(machine.run(max_steps=2), "read", x=1)
    machine.kill()
    again = machine.run(max_steps=4)
    assert [said(go(again, "read", f"r{x}", x=x)) for x in (2, 3, 4)] == [
        "continue",
        "continue",
        "step_budget",
    ]


def test_the_time_while_nothing_ran_is_not_charged(machine: Machine) -> None:
    go(machine.run(max_seconds=60, clock=lambda: 40.0), "read", x=1)
    machine.kill()
    an_hour_later = STARTED_AT.replace(hour=STARTED_AT.hour + 1)
    seconds = iter([0.0, 19.0, 19.0, 20.0])
    again = machine.run(max_seconds=60, started_at=an_hour_later, clock=lambda: next(seconds))
    assert allowed(again.check("read", {"x": 2}))
    assert again.pressure()["max_seconds"] == pytest.approx(59 / 60, abs=1e-4)
    assert allowed(again.check("read", {"x": 3}))
    assert said(again.check("read", {"x": 4})) == "wall_clock"


def test_back_off_ends_by_the_wall_clock_not_by_the_runs_own(machine: Machine) -> None:
    run = machine.run(clock=lambda: 100.0)
    ticket = run.check("read", {}).ticket
    assert ticket is not None
    run.observe(ticket, error={"status": 429, "retry_after": 30})
    machine.kill()
    later = STARTED_AT.replace(minute=STARTED_AT.minute + 2)
    again = machine.run(started_at=later)
    check = again.check("read", {}, at=0)
    assert (check.action, check.not_before) == (Action.WAIT, 10)
    machine.kill()
    earlier = STARTED_AT.replace(hour=STARTED_AT.hour - 2)
    set_back = machine.run(started_at=earlier).check("read", {}, at=0)
    assert set_back.not_before is not None
    assert set_back.not_before <= 130, "a clock that was set back doesn't make it hours"


def test_what_another_version_wrote_of_a_run_is_reported_and_its_root_still_holds(machine: Machine) -> None:
    run = machine.run()
    go(run, "pay", to="a")
    machine.kill()
    with closing(sqlite3.connect(machine.path)) as connection, connection:
        connection.execute("UPDATE run SET memory = x'c1'")
    again = machine.run()
    assert again.counts.faults != []
    assert said(again.check("pay", {"to": "a"})) == "duplicate_side_effect"


# -- several processes, one root -------------------------------------------------------------------------


def test_two_processes_spend_one_budget(machine: Machine) -> None:
    first, second = machine.run(max_steps=3), machine.run(run_id=OTHER, max_steps=3)
    go(first, "read", x=1)
    held = second.check("read", {"x": 2})
    assert allowed(held)
    assert said(go(first, "read", "c", x=3)) == "continue"
    assert said(second.check("read", {"x": 4})) == "step_budget"


def test_a_living_owners_calls_are_in_flight_and_a_dead_ones_are_charged(machine: Machine) -> None:
    store = machine.store()
    held = machine.run(store, run_id=OTHER).check("pay", {"to": "a"})
    assert allowed(held)
    run = machine.run()
    assert said(run.check("pay", {"to": "a"})) == "duplicate_in_flight"
    assert (run.state.root.budgets.steps.settled, run.state.root.budgets.steps.reserved) == (0, 1)
    store.close()
    assert said(run.check("pay", {"to": "a"})) == "uncertain_write"
    assert (run.state.root.budgets.steps.settled, run.state.root.budgets.steps.reserved) == (1, 0)


def test_a_halt_and_an_approval_in_one_process_hold_in_the_other(machine: Machine) -> None:
    policy = {"tools": {"send": {"approval": True}}}
    first, second = machine.run(policy=policy), machine.run(run_id=OTHER, policy=policy)
    first.approve("send", {"to": "x"})
    assert allowed(second.check("send", {"to": "x"}))
    first.stop()
    assert said(second.check("read", {})) == "operator_stop"
    assert said(second.reserve_turn()) == "operator_stop"


def test_an_approval_serves_one_process_only(machine: Machine) -> None:
    policy = {"tools": {"send": {"approval": True}}}
    first, second = machine.run(policy=policy), machine.run(run_id=OTHER, policy=policy)
    first.approve("send", {})
    assert allowed(first.check("send", {}))
    assert said(second.check("send", {})) == "approval_required"


def test_the_start_of_a_run_elsewhere_takes_it_from_whoever_has_it(machine: Machine) -> None:
    leftover = machine.run()
    ticket = leftover.check("pay", {"to": "a"}).ticket
    assert ticket is not None
    taken = machine.run()
    assert said(taken.check("pay", {"to": "a"})) == "uncertain_write"
    refused = leftover.check("read", {})
    assert (refused.ticket, said(refused)) == (None, "requeue_refused")
    assert said(leftover.reserve_turn()) == "requeue_refused"
    leftover.observe(ticket, result="paid")
    assert leftover.end().halt_reason == "requeue_refused"
    assert machine.rows("SELECT count(*) FROM run") == [(1,)]


def test_a_result_that_comes_after_the_end_still_tells_what_happened(machine: Machine) -> None:
    run = machine.run()
    ticket = run.check("pay", {"to": "a"}).ticket
    assert ticket is not None
    run.end()
    assert machine.rows("SELECT kind FROM mark") == [("uncertain",)]
    run.observe(ticket, result="paid")
    assert machine.rows("SELECT kind FROM mark") == [("done",)]


def test_threads_of_one_process_share_a_connection_and_lose_nothing(machine: Machine) -> None:
    store = machine.store()
    runs = [machine.run(store, run_id=UUID(int=RUN.int + i), max_steps=400) for i in range(4)]

    def work(run: RunGuard) -> None:
        for i in range(20):
            go(run, "read", f"r{i}", i=i)

    threads = [Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [run.counts.faults for run in runs] == [[]] * 4
    assert machine.rows("SELECT settled, reserved FROM budget WHERE kind = 'steps'") == [(80, 0)]


# -- a file that can't be used ---------------------------------------------------------------------------


def assert_goes_on_from_memory(run: RunGuard, fault: str) -> None:
    assert allowed(go(run, "read", x=1))
    assert allowed(run.reserve_turn(tokens=1))
    assert allowed(run.turn(1, 0))
    refused = run.check("pay", {"to": "a"})
    assert (refused.action, said(refused), refused.ticket) == (Action.ESCALATE, "guard_error", None)
    ended = run.end()
    assert (ended.outcome, ended.halt_reason) == (Outcome.ESCALATED, "guard_error")
    assert ended.halt_detail == {"guard_faults": [fault]}


def test_a_corrupt_file_is_no_error_of_the_agents(machine: Machine) -> None:
    machine.path.parent.mkdir()
    machine.path.write_bytes(b"no database" * 1_000)
    assert_goes_on_from_memory(machine.run(), "store_corrupt")


def test_a_file_that_breaks_under_way_is_no_error_of_the_agents(machine: Machine) -> None:
    store = machine.store()
    run = machine.run(store)
    store.begin(sync=False).execute("DROP TABLE budget")
    store.commit()
    assert_goes_on_from_memory(run, "store_failed")


def test_a_place_that_cannot_be_written_is_no_error_of_the_agents(machine: Machine) -> None:
    machine.path.parent.parent.joinpath("file").write_text("")
    machine.path = machine.path.parent.parent / "file" / "guard.db"
    assert_goes_on_from_memory(machine.run(), "store_unavailable")


def test_a_read_only_file_is_no_error_of_the_agents(machine: Machine) -> None:
    store = machine.store()
    run = machine.run(store)
    store.begin(sync=False).execute("PRAGMA query_only=ON")
    store.commit()
    assert_goes_on_from_memory(run, "store_readonly")


@pytest.mark.parametrize(("pragma", "fault"), [("user_version=99", "store_newer"), ("", "store_foreign")])
def test_a_file_of_somebody_else_is_left_alone(machine: Machine, pragma: str, fault: str) -> None:
    machine.path.parent.mkdir()
    with closing(sqlite3.connect(machine.path)) as connection, connection:
        connection.execute("CREATE TABLE theirs (x)")
        if pragma:
            connection.execute(f"PRAGMA {pragma}")
    assert_goes_on_from_memory(machine.run(), fault)
    assert machine.rows("SELECT name FROM sqlite_master") == [("theirs",)]


def test_a_file_of_an_earlier_version_is_taken_over(machine: Machine) -> None:
    run = machine.run()
    go(run, "pay", to="a")
    machine.kill()
    with closing(sqlite3.connect(machine.path)) as connection, connection:
        connection.execute("DROP TABLE checkpoint")
        connection.execute("PRAGMA user_version=1")
    store = machine.store()
    again = machine.run(store)
    assert said(again.check("pay", {"to": "a"})) == "duplicate_side_effect"
    assert (again.counts.faults, store.checkpoints.waiting()) == ([], [])
    assert machine.rows("PRAGMA user_version") == [(2,)]


def test_a_closed_store_is_no_error_of_the_agents(machine: Machine) -> None:
    store = machine.store()
    run = machine.run(store)
    store.close()
    assert_goes_on_from_memory(run, "store_closed")


def test_a_locked_file_is_left_alone_for_a_while_and_then_gets_everything(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("guardops.guard.sqlite.BUSY_S", 0.01)
    run = machine.run(max_steps=10)
    go(run, "pay", to="a")
    with closing(sqlite3.connect(machine.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        go(run, "read", [], x=1)
        assert run.counts.faults == ["store_locked"]
        other.execute("ROLLBACK")
        go(run, "read", "b", x=2)
        assert machine.rows("SELECT settled FROM budget WHERE kind = 'steps'") == [(1,)]
    machine.clock += RETRY_S
    go(run, "read", "c", x=3)
    machine.kill()
    again = machine.run(max_steps=10)
    assert again.state.budgets.steps.settled == 4
    assert said(again.check("read", {"x": 1})) == "tool_no_progress"


def test_a_run_that_began_without_the_file_gets_into_it_later(machine: Machine) -> None:
    machine.path.parent.mkdir()
    machine.path.mkdir()
    run = machine.run()
    go(run, "read", [], x=1)
    machine.path.rmdir()
    machine.clock += RETRY_S
    go(run, "read", x=2)
    machine.kill()
    again = machine.run()
    assert again.state.budgets.steps.settled == 2
    assert said(again.check("read", {"x": 1})) == "tool_no_progress"


def test_a_file_that_was_taken_away_is_made_anew_with_what_is_known(machine: Machine) -> None:
    store = machine.store()
    run = machine.run(store)
    go(run, "pay", to="a")
    connection = store.begin(sync=False)
    for table in ("root", "run", "mark", "budget"):
        connection.execute(f"DELETE FROM {table}")
    store.commit()
    with closing(sqlite3.connect(machine.path)) as other, other:
        other.execute("CREATE TABLE seen_by_all (x)")
    go(run, "read", x=1)
    machine.kill()
    again = machine.run()
    assert again.state.budgets.steps.settled == 2
    assert said(again.check("pay", {"to": "a"})) == "duplicate_side_effect"


def test_a_reservation_beyond_the_limit_is_granted_by_nobody(machine: Machine) -> None:
    store = machine.store()
    run = machine.run(store)
    store.begin(sync=False).execute("UPDATE budget SET most = 0 WHERE kind = 'steps'")
    store.commit()
    check = run.check("pay", {"to": "a"})
    assert (said(check), check.ticket) == ("guard_error", None)
    assert run.counts.faults == ["store_overdrawn"]


# -- the file itself -------------------------------------------------------------------------------------


def test_the_file_is_its_owners_alone(machine: Machine) -> None:
    go(machine.run(), "read", x=1)
    names = {path.name for path in machine.path.parent.iterdir()}
    assert names == {"guard.db", "guard.db-wal", "guard.db-shm"}
    for path in machine.path.parent.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(machine.path.parent.stat().st_mode) == 0o700
    machine.kill()
    machine.path.chmod(0o644)
    machine.run()
    assert stat.S_IMODE(machine.path.stat().st_mode) == 0o600


def test_no_argument_result_address_or_secret_is_in_the_file(machine: Machine) -> None:
    policy = {"tools": {"send": {"approval": True, "class": "side_effect"}}}
    run = machine.run(policy=policy)
    secrets = [f"S3CR3T-{i}-XYZZY" for i in range(9)]
    go(run, "read", {"text": secrets[0]}, q=secrets[1], password=secrets[2])
    go(run, "fetch", secrets[3], url=f"https://user:{secrets[4]}@a.example/list?key={secrets[5]}&page=1")
    run.approve("send", {"to": secrets[6]})
    assert allowed(run.check("send", {"to": secrets[6]}))
    run.state_changed(secrets[7])
    ticket = run.check("read", {"q": "x"}).ticket
    assert ticket is not None
    run.observe(ticket, error=ValueError(secrets[8]))
    coded = run.check("read", {"q": "y"}).ticket
    assert coded is not None
    run.observe(coded, error={"error_code": f"sk-proj-{'A1b2' * 8}XYZZY", "status": 400})
    content = b"".join(path.read_bytes() for path in machine.path.parent.iterdir())
    assert b"a.example" in content
    assert b"XYZZY" not in content


def test_a_write_waits_for_the_disk_before_it_may_run_and_a_read_does_not(machine: Machine) -> None:
    store = machine.store()
    run = machine.run(store)
    seen: list[int] = []
    begin = store.begin

    def watched(*, sync: bool) -> sqlite3.Connection:
        connection = begin(sync=sync)
        seen.append(connection.execute("PRAGMA synchronous").fetchone()[0])
        return connection

    store.begin = watched  # type: ignore[method-assign]
    go(run, "read")
    go(run, "save")
    assert seen == [1, 1, 2, 1]


def test_old_roots_are_forgotten_by_age_and_by_number_and_stopped_ids_much_later(machine: Machine) -> None:
    store = machine.store(most_roots=3, keep_days=35)
    for number in range(5):
        machine.now += 1
        run = machine.run(store, root_task_id=f"r{number}", run_id=UUID(int=RUN.int + number))
        go(run, "pay", to="a")
    run.stop()
    machine.kill()
    machine.now += 1
    machine.run(machine.store(most_roots=3), root_task_id="new", run_id=OTHER)
    roots = "SELECT root_task_id FROM root ORDER BY joined_at"
    assert machine.rows(roots) == [("r3",), ("r4",), ("new",)]
    for table in ("mark", "budget", "run"):
        assert machine.rows(f"SELECT count(*) FROM {table} WHERE root_task_id = 'r0'") == [(0,)]
    machine.kill()
    machine.now += 36 * 86_400
    machine.run(machine.store(), root_task_id="newest", run_id=OTHER)
    assert machine.rows(roots) == [("newest",)]
    assert machine.rows("SELECT count(*) FROM stopped_run") == [(1,)]
    machine.kill()
    machine.now += 400 * 86_400
    machine.run(machine.store(), root_task_id="newest", run_id=OTHER)
    assert machine.rows("SELECT count(*) FROM stopped_run") == [(0,)]


# -- in the middle of an answer --------------------------------------------------------------------------


def test_a_signal_in_the_middle_of_an_answer_may_stop_the_run(machine: Machine) -> None:
    signals = ["stop"]
    run: RunGuard

    def clock() -> float:
        if signals and run_is_made:
            signals.pop()
            run.stop(Reason.CANCELLED)
        return 0.0

    run_is_made = False
    run = machine.run(clock=clock)
    run_is_made = True
    assert run.check("read", {}).ticket is None
    assert run.counts.faults == []
    machine.kill()
    assert machine.run(run_id=OTHER).check("read", {}).reason is Reason.CANCELLED


@pytest.mark.parametrize("same_run", [True, False])
def test_a_call_in_the_middle_of_an_answer_is_kept_with_it(machine: Machine, same_run: bool) -> None:
    store = machine.store()
    sibling = machine.run(store, run_id=OTHER, max_steps=2)
    signals: list[str] = []

    def clock() -> float:
        if signals:
            signals.pop()
            inner = (run if same_run else sibling).check("pay", {"to": "inner"})
            assert inner.ticket is not None
        return 0.0

    run = machine.run(store, clock=clock, max_steps=2)
    signals.append("now")
    assert allowed(run.check("pay", {"to": "outer"}))
    assert run.counts.faults == sibling.counts.faults == []
    assert machine.rows("SELECT count(*) FROM mark WHERE kind = 'in_flight'") == [(2,)]
    assert said(run.check("read", {})) == "step_budget"
    machine.kill()
    assert said(machine.run(run_id=OTHER, max_steps=2).check("read", {})) == "step_budget"


def test_a_signal_that_asks_another_root_in_the_middle_of_an_answer_is_answered_from_memory(
    machine: Machine,
) -> None:
    store = machine.store()
    other = machine.run(store, run_id=OTHER, root_task_id="other")
    asked: list[bool] = []

    def clock() -> float:
        asked.append(allowed(other.check("read", {"at": len(asked)})))
        return 0.0

    run = machine.run(store, clock=clock)
    assert allowed(run.check("read", {}))
    assert asked == [True]
    assert other.counts.faults == ["store_reentered"]
    go(other, "read", x=1)
    assert machine.rows(f"SELECT count(*) FROM ledger WHERE run_id = '{OTHER}'") == [(2,)]


@pytest.mark.parametrize("broken", ["amount", "reason"])
def test_what_cannot_be_kept_is_no_error_of_the_agents(machine: Machine, broken: str) -> None:
    run = machine.run()
    if broken == "amount":
        run.turn(10**30)
    else:
        run.ladder.first_reason = "\ud800"
    assert run.check("read", {"x": 1}).action in (Action.CONTINUE, Action.FORCE_ANSWER, Action.HALT)
    assert len(run.counts.faults) == 1
    run.end()


def test_eight_equal_calls_at_once_run_once_over_all_processes(machine: Machine) -> None:
    runs = [machine.run(run_id=UUID(int=RUN.int + i)) for i in range(8)]
    passed: list[bool] = []

    def work(run: RunGuard) -> None:
        passed.append(run.check("pay", {"to": "a"}).allowed)

    threads = [Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(passed) == [False] * 7 + [True]
    assert all(run.counts.faults == [] for run in runs)
