"""An agent process: the ten lines that the README shows, over and over, around a scripted model and tools.

``python -m tests.faults.agent_process FOLDER NAME`` works until ``FOLDER/stop`` is there. It writes the id of
every run that it begins to ``FOLDER/begun`` and, once its end has returned, to ``FOLDER/ended``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from guardops.guard.reporter import Pace
from guardops.guard.session import AgentRun, Guard

SNIPPET = Path(__file__).resolve().parents[2] / "templates" / "runs" / "snippets" / "guard.py.txt"
QUICK = Pace(heartbeat=0.5, adopt=0.5, sync=0.2, first_wait=0.05, longest_wait=0.4, at_exit=10.0)

Model = Callable[..., SimpleNamespace]


def reply(text: str = "", **calls: dict[str, Any]) -> SimpleNamespace:
    """Return what a model says: a text, or calls of tools by their names."""
    asked = [SimpleNamespace(id=f"call_{name}", name=name, args=args) for name, args in calls.items()]
    message = {"role": "assistant", "content": text}
    usage = {"tokens_in": 900, "tokens_out": 60, "cost": "0.004"}
    return SimpleNamespace(text=text, calls=asked, message=message, **usage)


def researcher(messages: list[dict[str, Any]], tools: list[Any]) -> SimpleNamespace:
    """Search, read what was found, answer."""
    found = [message["content"] for message in messages if message["role"] == "tool"]
    if not found:
        return reply(search={"q": messages[0]["content"]})
    if len(found) == 1:
        return reply(read={"url": "https://library.example/kestrel"})
    return reply(f"Kestrels hover: {found[-1]}")


def search(q: str) -> list[str]:
    return [f"https://library.example/{q}"]


def read(url: str) -> str:
    return f"the page at {url}"


def snippet(model: Model, functions: dict[str, Callable[..., Any]], text: str = "") -> dict[str, Any]:
    """Run the text of the snippet with a model and tools, and return what it has defined."""
    namespace: dict[str, Any] = {"model": model, "TOOLS": sorted(functions), "FUNCTIONS": functions}
    exec(compile(text or SNIPPET.read_text(encoding="utf-8"), str(SNIPPET), "exec"), namespace)
    return namespace


def remember(namespace: dict[str, Any], on_run: Callable[[AgentRun], None]) -> None:
    """Call ``on_run`` with every run that the snippet begins."""
    guard: Guard = namespace["guard"]
    begin = guard.run

    def run(**options: Any) -> AgentRun:
        begun = begin(**options)
        on_run(begun)
        return begun

    guard.run = run  # type: ignore[method-assign]


def main(folder: Path, name: str, pause: float, quick: bool) -> None:
    if quick:
        Guard.from_env = partial(Guard.from_env, pace=QUICK)  # type: ignore[method-assign]
    namespace = snippet(researcher, {"search": search, "read": read})
    ids: list[str] = []
    remember(namespace, lambda run: ids.append(str(run.who.run_id)))
    guard: Guard = namespace["guard"]
    with (
        (folder / f"begun-{name}").open("a", buffering=1) as begun,
        (folder / f"ended-{name}").open("a", buffering=1) as ended,
    ):
        remember(namespace, lambda run: print(run.who.run_id, file=begun))
        while not (folder / "stop").exists():
            namespace["work"](f"kestrel-{os.getpid()}-{len(ids)}")
            print(ids[-1], file=ended)
            time.sleep(pause)
    sys.exit(0 if guard.close(60) else 1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4:] == ["--quick"])
