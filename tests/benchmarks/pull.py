"""Guards that pull their policies from a real gate over a real PostgreSQL, beside a bare asyncio fan-out.

    uv run python -m tests.benchmarks.pull [--quick] [--json]

The guards are connections in processes of their own; each tells at which moment the whole bundle was in its
hand, counted from the moment the edit was asked for, its transaction included. Every round edits before 1,000
waiting guards, with and without people who look at pages, and lets a bare fan-out write the same bytes to as
many connections: ``ratio_to_bare`` is the quiet median p99 over its. A guard that has not got an edit, or a
later one, after ten seconds has missed it. CPU is the gate's own process, from /proc; where others use the
machine as well, go by CPU and ratios.

Targets, pass (stretch): 4,500 (9,000) 304s a CPU second; p99 250 (120) ms quiet, 1 s (300 ms) under page
load; none missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.bare_fan_out import BareFanOut
from tests.benchmarks.cpu import cpu_seconds
from tests.benchmarks.guards import Door, Guards
from tests.benchmarks.own_database import own_database
from tests.benchmarks.page_load import PageLoad, session_cookie
from tests.gate_process import GateProcess

DATABASE = "guardops_pull_benchmark"
BLOCKED = 200
JOB_TYPES = 10
MISSED_SECONDS = 10.0
PAUSE_SECONDS = 0.4  # between edits, so that each goes out at once
ASKING = 16  # connections that ask for 304s
POLL_EVERY = 10.0
Say = Callable[[str], None]


@dataclass(slots=True)
class Edits:
    """What became of some edits: seconds until each guard held each of them, and guards that never did."""

    seconds: list[float] = field(default_factory=list)
    missed: int = 0
    cpu: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Return milliseconds."""
        found = sorted(self.seconds)
        return {
            "p50": round(statistics.median(found) * 1e3, 1),
            "p99": round(found[int(len(found) * 0.99)] * 1e3, 1),
            "max": round(found[-1] * 1e3, 1),
        }


class Bench:
    """A database with a tenant whose policies are edited, and the gate its guards ask."""

    def __init__(self, url: str, say: Say) -> None:
        from policies.publish.sources import Reach, Wanted, block_sources
        from tests.factories import make_key, make_tenant

        self.url, self.say = url, say
        self.tenant = make_tenant("acme")
        self.key = make_key(self.tenant, now=datetime.now(UTC))[1]
        self.seen = 0
        names = [hashlib.sha256(str(number).encode()).hexdigest()[:12] for number in range(BLOCKED)]
        wanted = [Wanted(f"{name}.example", reason="tarpit") for name in names]
        self._act(block_sources, Reach(self.tenant.organisation, self.tenant), wanted)
        for number in range(JOB_TYPES - 1):
            self._save(f"job-{number}", {"mode": "enforce", "limits": {"max_steps": 40 + number}}, seen=0)
        self.cookie = session_cookie()

    def edit(self) -> int:
        """Publish the next version of a policy; return the bundle's revision."""
        self._save("research", {"limits": {"max_steps": 10 + self.seen % 50}}, seen=self.seen)
        self.seen += 1
        self.tenant.refresh_from_db()
        return int(self.tenant.bundle_revision)

    def body(self) -> bytes:
        from policies.models import BundleRevision

        return bytes(BundleRevision.objects.filter(tenant=self.tenant).latest("revision").body)

    def _save(self, job_type: str, document: dict[str, Any], *, seen: int) -> None:
        from policies.publish.policies import Place, save_policy

        self._act(save_policy, Place(self.tenant.organisation, self.tenant, job_type), document, seen=seen)

    def _act(self, verb: Callable[..., object], *arguments: object, **more: object) -> None:
        from guardops.tenants.actors import SYSTEM

        verb(*arguments, **more, actor=SYSTEM, now=datetime.now(UTC))

    def gate(self) -> GateProcess:
        return GateProcess(self.url)

    def guards(self, gate: GateProcess) -> Guards:
        return Guards(Door(gate.address, self.key))

    def not_modified(self, gate: GateProcess, seconds: float) -> float:
        """Return how many 304s the gate gives in a second of its CPU."""
        with self.guards(gate) as guards:
            guards.open(ASKING, wait=0.0)
            time.sleep(0.5)
            answers, used = guards.know().answers, cpu_seconds(gate.pid)
            time.sleep(seconds)
            return (guards.know().answers - answers) / (cpu_seconds(gate.pid) - used)

    def fan_out(self, gate: GateProcess, count: int, edits: int, *, pages: bool = False) -> Edits:
        """Edit before so many waiting guards, with people who look at pages or none."""
        load = PageLoad(self.url, self.cookie) if pages else nullcontext()
        with self.guards(gate) as guards, load:
            guards.open(count)
            _settle(guards, count)
            time.sleep(4.0 if pages else 0.5)  # a web process starts
            return watch(guards, count, edits, self._timed_edit, gate.pid)

    def _timed_edit(self) -> tuple[int, float]:
        began = time.monotonic()
        return self.edit(), began

    def bare(self, count: int, edits: int) -> Edits:
        with BareFanOut(self.body()) as fan, Guards(Door(fan.address, self.key)) as guards:
            guards.open(count)
            _settle(guards, count)
            return watch(guards, count, edits, fan.publish, 0)

    def memory(self, count: int) -> float:
        """Return how many KB more a gate takes for each guard that waits."""
        with self.gate() as gate, self.guards(gate) as guards:
            guards.open(50)
            _settle(guards, 50)
            before = _resident_kb(gate.pid)
            guards.open(count)
            _settle(guards, count + 50)
            return (_resident_kb(gate.pid) - before) / count

    def polling(self, gate: GateProcess, count: int, seconds: float) -> float:
        """Return the share of a core that so many guards cost which ask every ten seconds."""
        with self.guards(gate) as guards:
            guards.open(2, wait=0.0)
            time.sleep(0.5)
            guards.close()
            used = cpu_seconds(gate.pid)
            guards.poll(count, POLL_EVERY, seconds)
            return (cpu_seconds(gate.pid) - used) / seconds

    def herd(self, count: int) -> dict[str, float]:
        """Kill a gate under waiting guards; return how long it takes until all wait again.

        ``start`` is what a gate needs that nobody asks anything. Each guard asks twice.
        """
        with self.gate() as gate:
            start = _seconds(lambda: (gate.restart(), gate.wait_ready()))
        with self.gate() as gate, self.guards(gate) as guards:
            guards.open(count)
            _settle(guards, count)
            asked = guards.know().answers
            seconds = _seconds(lambda: (gate.restart(), _until(lambda: _all_asked(guards, asked, count))))
            return {
                "seconds": round(seconds, 2),
                "start": round(start, 2),
                "cpu_s": round(cpu_seconds(gate.pid), 2),
            }


def watch(
    guards: Guards, count: int, edits: int, publish: Callable[[], tuple[int, float]], pid: int
) -> Edits:
    """Publish one edit after the other, and note when each guard holds it."""
    found = Edits()
    for _ in range(edits):
        used = cpu_seconds(pid) if pid else 0.0
        revision, began = publish()
        until = time.monotonic() + MISSED_SECONDS
        time.sleep(PAUSE_SECONDS)
        while len(times := guards.know().times(revision)) < count and time.monotonic() < until:
            time.sleep(0.1)
        found.missed += count - len(times)
        found.seconds += [at - began for at in times]
        found.cpu.append(cpu_seconds(pid) - used if pid else 0.0)
        _settle(guards, count)
    return found


def _seconds(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _all_asked(guards: Guards, answers: int, count: int) -> bool:
    """Say whether all guards wait, each after another answer."""
    known = guards.know()
    return known.waiting == count and known.answers >= answers + count


def _settle(guards: Guards, count: int) -> None:
    """Return when all guards wait."""
    _until(lambda: guards.know().waiting == count)


def _until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit("the guards don't get on")
        time.sleep(0.05)


def _resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def measure(
    bench: Bench, *, guards: Sequence[int], edits: int, rounds: int, seconds: float
) -> dict[str, Any]:
    """Return the figures: those that come from rounds as medians over them, missed edits as their sum."""
    say = bench.say
    rates: list[float] = []
    kinds: dict[str, list[Edits]] = {}
    with ExitStack() as stack:
        gate = stack.enter_context(bench.gate())
        for place in range(rounds):
            rates.append(bench.not_modified(gate, seconds))
            say(f"round {place + 1} of {rounds}: {rates[-1]:,.0f} 304s a CPU second")
            for count in guards:
                for name, run in (
                    (f"bare_{count}", lambda count=count: bench.bare(count, edits)),
                    (f"quiet_{count}", lambda count=count: bench.fan_out(gate, count, edits)),
                    (f"pages_{count}", lambda count=count: bench.fan_out(gate, count, edits, pages=True)),
                ):
                    kinds.setdefault(name, []).append(run())
                    done = kinds[name][-1]
                    cpu = statistics.median(done.cpu) * 1e3
                    say(f"  {name}: {done.figures()} ms, {done.missed} missed, {cpu:.0f} ms CPU an edit")
        polling = bench.polling(gate, guards[0], seconds * 2)
        say(f"{guards[0]:,} guards that poll every 10 s: {polling:.3f} of a core")
    held = {str(count): round(bench.memory(count), 1) for count in guards}
    say(f"KB a waiting guard: {held}")
    herd = bench.herd(guards[0])
    say(f"{guards[0]:,} guards after a restart: {herd}")
    first = guards[0]
    figures = {name: _median(done) for name, done in kinds.items()}
    return {
        "not_modified_per_cpu_s": round(statistics.median(rates)),
        "propagation_ms": figures[f"quiet_{first}"],
        "propagation_pages_ms": figures[f"pages_{first}"],
        "missed": sum(done.missed for name in kinds for done in kinds[name]),
        "edits": sum(len(done.cpu) for name in kinds if not name.startswith("bare") for done in kinds[name]),
        "kb_per_guard": held[str(first)],
        "cpu_ms_per_edit": round(_cpu(kinds[f"quiet_{first}"]) * 1e3, 1),
        "ratio_to_bare": round(figures[f"quiet_{first}"]["p99"] / figures[f"bare_{first}"]["p99"], 2),
        "polling_cores": round(polling, 3),
        "herd_s": herd["seconds"],
        "start_s": herd["start"],
        "by_guards": figures,
    }


def _median(rounds: Sequence[Edits]) -> dict[str, float]:
    figures = [done.figures() for done in rounds]
    return {name: round(statistics.median(each[name] for each in figures), 1) for name in figures[0]}


def _cpu(rounds: Sequence[Edits]) -> float:
    return statistics.median([used for done in rounds for used in done.cpu])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--guards", type=int, nargs="+", default=[1_000, 2_000])
    parser.add_argument("--edits", type=int, default=50, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="1,000 guards, 10 edits, one round")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    guards, edits, rounds = options.guards, options.edits, options.rounds
    if options.quick:
        guards, edits, rounds = [1_000], 10, 1
    say: Say = (lambda line: None) if options.json else lambda line: print(line, flush=True)
    with own_database(DATABASE) as url:
        bench = Bench(url, say)
        bench.edit()
        say(f"{len(bench.body()):,} bytes a bundle, load average {os.getloadavg()[0]:.1f}")
        figures = measure(bench, guards=guards, edits=edits, rounds=rounds, seconds=5.0)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:28} {value}")
    sys.exit(0 if figures["missed"] == 0 else 1)


if __name__ == "__main__":
    main()
