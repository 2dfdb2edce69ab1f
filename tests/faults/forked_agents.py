"""Agents of one application, forked after its guard was made: each works until it is stopped.

``python -m tests.faults.forked_agents FILE`` forks two with multiprocessing. A Celery worker of several
processes forks them for its tasks: ``celery -A tests.faults.forked_agents worker``, with its queue in the
folder ``AGENTS_QUEUE``. Each writes a line of JSON to the file when it has begun and when it was stopped.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

from celery import Celery

from guardops.guard.policy import Policy
from guardops.guard.session import Guard, Stopped

QUEUE = os.environ["AGENTS_QUEUE"]

app = Celery("agents", broker="filesystem://")
app.conf.update(
    broker_transport_options=dict.fromkeys(("data_folder_in", "data_folder_out", "control_folder"), QUEUE),
    worker_enable_remote_control=False,
    task_ignore_result=True,
)

guard = Guard.from_env(Policy.from_mapping({"max_steps": 500, "domain_cap": 500}))


def work(path: str) -> None:
    """Read page after page until the guard says stop."""
    with guard.run(job_type="research") as run:
        tell(path, begun=True)
        try:
            for page in range(400):
                run.call("fetch", {"url": f"https://a.example/{page}"}, lambda url: url, progressed=True)
                time.sleep(0.05)
        except Stopped as stopped:
            reason = str(stopped.reason)
    tell(path, begun=False, reason=reason, revision=run.in_force().revision_end)


app.task(work, name="work")


def tell(path: str, **said: object) -> None:
    line = json.dumps({"pid": os.getpid(), "guard": guard.instance, **said}) + "\n"
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(line)


def main(path: str) -> None:
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=work, args=(path,)) for _ in range(2)]
    for child in children:
        child.start()
    work(path)
    for child in children:
        child.join(30)


if __name__ == "__main__":
    main(sys.argv[1])
