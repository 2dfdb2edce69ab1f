"""The default store among real processes: killed, forked, and several at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from guardops.guard.policy import Policy
from guardops.guard.session import Guard
from guardops.guard.sqlite import SqliteStore
from tests.guard.agent import allowed, said

ROOT = Path(__file__).resolve().parents[2]
RUN = "01958c1e-0000-7000-8000-00000000000"


class Agent:
    """One scripted agent process."""

    def __init__(self, path: Path, number: int, *root: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.guard.scripted", str(path), f"{RUN}{number}", *root],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.answer()

    def answer(self) -> str:
        """Return what the agent says next."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def order(self, order: str, tool: str, **args: Any) -> None:
        """Tell the agent what to do, and don't wait."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{order} {tool} {json.dumps(args)}\n")
        self.process.stdin.flush()

    def do(self, order: str, tool: str, **args: Any) -> str:
        """Tell the agent what to do, and return what the guard said."""
        self.order(order, tool, **args)
        return self.answer()

    def kill(self) -> None:
        """Kill it as the system does when it is out of memory."""
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        """Wait for its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    agents: list[Agent] = []

    def started(number: int = 1, *root: str) -> Agent:
        agents.append(Agent(tmp_path / "guard.db", number, *root))
        return agents[-1]

    yield started
    for agent in agents:
        if agent.process.returncode is None:
            agent.end()


def test_a_process_killed_between_check_and_result_of_a_write_comes_back_uncertain(
    start: Callable[..., Agent],
) -> None:
    agent = start()
    assert agent.do("call", "read", x=1) == "continue 1"
    assert agent.do("check", "pay", to="a") == "continue 1"
    agent.kill()
    again = start()
    assert again.do("check", "read", x=2) == "continue 2", "what was in flight was charged"
    assert again.do("check", "pay", to="a") == "uncertain_write 2"
    again.kill()
    assert start().do("check", "read", x=3) == "requeue_refused 3", "the run was stopped for it"


def test_a_process_killed_after_a_halt_leaves_an_id_that_is_refused(start: Callable[..., Agent]) -> None:
    agent = start()
    assert agent.do("check", "rm") == "forbidden_tool 0"
    agent.kill()
    assert start().do("check", "read") == "requeue_refused 0"


def test_what_a_process_spent_and_held_when_it_was_killed_is_seen_by_its_sibling(
    start: Callable[..., Agent],
) -> None:
    first, second = start(1, "root"), start(2, "root")
    assert first.do("check", "pay", to="a") == "continue 0"
    assert second.do("check", "pay", to="a") == "duplicate_in_flight 0"
    first.kill()
    assert second.do("check", "pay", to="a") == "uncertain_write 1"


def test_processes_at_once_lose_no_step_and_go_beyond_no_limit(start: Callable[..., Agent]) -> None:
    agents = [start(number, "root") for number in range(1, 4)]
    for agent in agents:
        for x in range(8):
            agent.order("call", "read", x=x)
    answers = [agent.answer() for agent in agents for _ in range(8)]
    assert [answer.split()[0] for answer in answers].count("continue") == 20
    assert {answer.split()[0] for answer in answers} == {"continue", "step_budget"}
    assert max(int(answer.split()[1]) for answer in answers) == 20


def test_processes_that_start_together_make_one_file(tmp_path: Path) -> None:
    script = "\n".join(
        [
            "import os, sys",
            "from guardops.guard.session import Guard",
            "from guardops.guard.sqlite import SqliteStore",
            "sys.stdin.read(1)",
            "run = Guard(store=SqliteStore(sys.argv[1])).run(job_type='t', root_task_id='r')",
            "run.observe(run.check('read', {'by': os.getpid()}).ticket, result='r')",
            "print(*run.counts.faults)",
        ]
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "guard.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    assert [child.communicate()[0].strip() for child in children] == [""] * 4
    run = Guard(store=SqliteStore(tmp_path / "guard.db")).run(job_type="other", root_task_id="r")
    assert run.state.root.budgets.steps.settled == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system that forks")
def test_a_forked_child_is_an_owner_of_its_own_and_leaves_its_parents_run_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "guard.db")
    guard = Guard(Policy.from_mapping({"max_steps": 3}), store=store)
    run = guard.run(job_type="t", run_id=UUID(f"{RUN}1"), root_task_id="root")
    ticket = run.check("read", {"x": 1}).ticket
    assert ticket is not None
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            inherited = run.check("read", {"x": 2})
            own = guard.run(job_type="t", run_id=UUID(f"{RUN}2"), root_task_id="root")
            code = 0 if said(inherited) == "requeue_refused" and allowed(own.check("read", {"x": 3})) else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert allowed(run.observe(ticket, result="r"))
    assert run.counts.faults == []
    assert said(run.check("read", {"x": 4})) == "continue"
    assert run.state.root.budgets.steps.settled == 2, "the child is dead and what it held is charged"
    store.close()
