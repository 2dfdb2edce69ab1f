"""An agent in a process of its own, told what to do by lines on its standard input.

``python -m tests.guard.scripted FILE RUN_ID [ROOT]`` starts a run with the default store at FILE. It answers
every line ``check|call tool json-arguments`` with what the guard said; ``call`` reports a result as well.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from uuid import UUID

from guardops.guard.policy import Policy
from guardops.guard.session import Guard
from guardops.guard.sqlite import SqliteStore

TOOLS = {"pay": {"class": "side_effect"}, "rm": {"forbidden": True}}


def main() -> None:
    """Follow the script on the standard input."""
    path, run_id, *root = sys.argv[1:]
    policy = Policy.from_mapping({"max_steps": 20, "tools": TOOLS})
    guard = Guard(policy, store=SqliteStore(Path(path)))
    run = guard.run(job_type="t", run_id=UUID(run_id), root_task_id=root[0] if root else None)
    print("started", *run.counts.faults, flush=True)
    for line in sys.stdin:
        order, tool, args = line.rstrip("\n").split(" ", 2)
        check = run.check(tool, json.loads(args))
        if order == "call" and check.ticket is not None:
            run.observe(check.ticket, result=line)
        print(check.reason or check.action, run.state.root.budgets.steps.settled, flush=True)


if __name__ == "__main__":
    main()
