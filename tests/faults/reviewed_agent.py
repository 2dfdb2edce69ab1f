"""An agent that hands its run to a person, and goes on with what the person decides, in whatever process.

``python -m tests.faults.reviewed_agent FOLDER`` works on one question until the guard leaves it to a person;
started again, it finds what waits there and goes on. The model is scripted: it reads one shelf after the
other, as it is told. What it does is written to ``FOLDER/said``, one word a line with what belongs to it.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from guardops.guard.escalation import Escalation
from guardops.guard.policy import Policy
from guardops.guard.session import Action, AgentRun, Guard, Stopped
from tests.faults.agent_process import QUICK, reply

POLICY = Policy.from_mapping({"max_steps": 3, "partial_ok": False})
QUESTION = "what do kestrels eat?"


def model(messages: list[dict[str, Any]]) -> SimpleNamespace:
    """Read page after page of the catalogue; where it is told of a shelf, read that one and answer."""
    told = [message["content"] for message in messages if message["role"] == "user"]
    found = [message["content"] for message in messages if message["role"] == "tool"]
    if "shelf B" not in told[-1]:
        return reply(read={"page": len(found)})
    if messages[-1]["role"] == "tool":
        return reply(f"Voles, says {found[-1]}")
    return reply(read={"page": "shelf B"})


def read(page: object) -> str:
    return f"page {page}"


class Agent:
    """The loop, and what it tells of itself."""

    def __init__(self, folder: Path) -> None:
        self.said = (folder / "said").open("a", buffering=1)
        self.guard = Guard.from_env(POLICY)

    def work(self, run: AgentRun, messages: list[dict[str, Any]]) -> str:
        with run:
            try:
                return self.loop(run, messages)
            except Stopped as stop:
                if stop.action is not Action.ESCALATE:
                    raise
                waits = run.escalate("Which shelf?", artifact=f"{len(messages)} messages", context=messages)
        self.say("waits", waits.checkpoint_id)
        return self.go_on(waits)

    def loop(self, run: AgentRun, messages: list[dict[str, Any]]) -> str:
        while True:
            answer = model(messages) if run.tools(["read"]) else reply("No more than this.")
            run.turn(answer.tokens_in, answer.tokens_out, answer.cost, answered=not answer.calls)
            messages.append(answer.message)
            if not answer.calls:
                return str(answer.text)
            for call in answer.calls:
                result = run.call(call.name, call.args, read)
                messages.append({"role": "tool", "id": call.id, "content": result.content})

    def go_on(self, waits: Escalation) -> str:
        found = waits.decided()
        assert found is not None
        self.say("decided", found.action.value)
        if found.run is None:
            return found.answer or "stopped"
        self.say("attempt", found.run.who.run_id)
        if os.environ.get("DIES_AS_IT_BEGINS"):
            os.kill(os.getpid(), 9)
        return self.work(found.run, [*found.context, {"role": "user", "content": found.told}])

    def say(self, *words: object) -> None:
        print(*words, file=self.said)


def main(folder: Path) -> None:
    Guard.from_env = partial(Guard.from_env, pace=QUICK)  # type: ignore[method-assign]
    agent = Agent(folder)
    if waiting := agent.guard.pending():
        answer = agent.go_on(waiting[0])
    else:
        run = agent.guard.run(job_type="research", agent="librarian")
        agent.say("run", run.who.run_id)
        answer = agent.work(run, [{"role": "user", "content": QUESTION}])
    agent.say("answer", answer)
    sys.exit(0 if agent.guard.close(30) else 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
