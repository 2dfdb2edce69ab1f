"""The runs of one task as a tree: who started whom, what they used together, its attempts, refused work."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Case, Count, Sum, When
from django.db.models.fields.json import KT

from runs.models import LiveRun, RefusedWork, Run
from runs.pages.handoffs import Handoff, read_handoffs
from runs.pages.limits import Pressure, pressure_on, whole_limit
from runs.querysets import as_id

if TYPE_CHECKING:
    from guardops.tenants.models import Tenant

TASK_RUNS = 50
"""How many runs of a task its tree holds; the runs list shows the rest."""
REFUSALS = 10
DEEPEST = 8
"""Up to this depth a row of the tree is indented further than the one above."""


@dataclass(frozen=True, slots=True)
class Member:
    """One run of a task: ended, or still running, where ``outcome`` is empty."""

    run_id: UUID
    agent: str
    outcome: str
    attempt: int
    parent_run_id: UUID | None
    resumed_from: UUID | None
    started_at: datetime
    steps: int
    cost: Decimal
    hops: str
    sent_as: UUID | None = None  # its id in what other runs say of it, where it is stored under another
    limits: Mapping[str, Any] | None = None  # of a root run
    handoff: Handoff | None = None  # the checkpoint that ended it

    @property
    def is_live(self) -> bool:
        return not self.outcome

    @property
    def names(self) -> tuple[UUID | None, ...]:
        """The ids by which other runs may name it as their parent."""
        return (self.run_id, self.sent_as) if self.sent_as else (self.run_id,)


@dataclass(frozen=True, slots=True)
class Node:
    """A run at its place in the tree; ``missing_parent`` where the run that started it is not among them."""

    run: Member
    depth: int
    descendants: int
    badge: str = ""
    missing_parent: bool = False

    @property
    def indent(self) -> int:
        return min(self.depth, DEEPEST)


@dataclass(frozen=True, slots=True)
class TaskTree:
    """A task: its runs from each root down, and what the tree that ``run_id`` is in has used.

    ``runs``, ``cost`` and ``steps`` are of all its ended runs, those beyond ``TASK_RUNS`` included.
    """

    task_id: str
    nodes: Sequence[Node]
    attempts: Sequence[Member]
    runs: int
    live: int
    cost: Decimal
    steps: int
    descendants: int
    descendants_limit: int | None
    breadth: int
    depth: int
    hops_limit: int | None
    pressures: Sequence[Pressure]
    refused: Sequence[RefusedWork]
    more_refused: bool

    @property
    def shows_attempts(self) -> bool:
        """Whether there is more to tell of its attempts than the table does."""
        return len(self.attempts) > 1 or any(attempt.handoff for attempt in self.attempts)

    @property
    def are_listed(self) -> bool:
        """Whether the descendants are just the task's ended runs that another run started."""
        return self.descendants == self.runs - 1 and not self.live

    @property
    def more(self) -> int:
        """How many ended runs the tree leaves out."""
        return max(0, self.runs - sum(not node.run.is_live for node in self.nodes))


def read_task(tenant: Tenant, run: Run | LiveRun) -> TaskTree:
    """Return the task that ``run`` is part of, in four queries; a fifth where it has very many runs."""
    task_id = run.root_task_id or str(run.run_id)
    of_task = Run.objects.for_tenants([tenant.pk]).of_task(task_id)
    ended = list(_with_lineage(of_task.without_detail()).order_by("started_at", "run_id")[: TASK_RUNS + 1])
    running = LiveRun.objects.for_tenants([tenant.pk]).of_task(task_id).order_by("started_at", "run_id")
    members = [_ended(one) for one in ended[:TASK_RUNS]] + [_live(one) for one in running[:TASK_RUNS]]
    if all(member.run_id != run.run_id for member in members):
        members.append(_live(run) if isinstance(run, LiveRun) else _ended(run))
    if len(ended) > TASK_RUNS:
        totals = of_task.aggregate(runs=Count("run_id"), cost=Sum("cost"), steps=Sum("steps"))
    else:
        done = [member for member in members if not member.is_live]
        totals = {"runs": len(done), "cost": sum(m.cost for m in done), "steps": sum(m.steps for m in done)}
    handoffs = read_handoffs(tenant, task_id)
    members = [replace(member, handoff=_handoff_of(member, handoffs)) for member in members]
    refused = RefusedWork.objects.for_tenants([tenant.pk]).of_task(task_id).order_by("-at", "-refusal_id")
    return make_tree(task_id, members, totals, list(refused[: REFUSALS + 1]), run.run_id)


def _handoff_of(member: Member, handoffs: Mapping[UUID, Handoff]) -> Handoff | None:
    return next((found for name in member.names if name and (found := handoffs.get(name))), None)


def _with_lineage(runs: Any) -> Any:
    """Read from the column that lists leave unread: hops, the id a run was sent with, a root run's limits."""
    return runs.annotate(
        hops=KT("detail__lineage__hops_remaining"),
        sent_id=KT("detail__run_id"),
        own_limits=Case(When(parent_run_id=None, then=KT("detail__limits"))),
    )


def _ended(run: Any) -> Member:
    limits = getattr(run, "own_limits", None)
    return Member(
        run_id=run.run_id,
        agent=run.agent,
        outcome=run.outcome,
        attempt=run.attempt,
        parent_run_id=run.parent_run_id,
        resumed_from=run.resumed_from,
        started_at=run.started_at,
        steps=run.steps,
        cost=run.cost,
        hops=getattr(run, "hops", None) or "",
        sent_as=as_id(getattr(run, "sent_id", None) or ""),
        limits=_object(limits),
    )


def _live(run: LiveRun) -> Member:
    envelope = (run.detail or {}).get("envelope") or {}
    hops = envelope.get("hops_remaining")
    return Member(
        run_id=run.run_id,
        agent=run.agent,
        outcome="",
        attempt=run.attempt,
        parent_run_id=run.parent_run_id,
        resumed_from=run.resumed_from,
        started_at=run.started_at,
        steps=run.steps,
        cost=run.cost,
        hops="" if hops is None else str(hops),
        limits=None if run.parent_run_id else (run.detail or {}).get("limits"),
    )


def _object(text: str | None) -> Mapping[str, Any] | None:
    """Read an object out of text; anything else is none."""
    try:
        found = json.loads(text) if text else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def make_tree(
    task_id: str,
    members: Sequence[Member],
    totals: Mapping[str, Any],
    refused: Sequence[RefusedWork],
    this_id: UUID,
) -> TaskTree:
    """Put the runs in their places. Parents are what agents said, so they may be missing or go in circles."""
    trees = _trees(members, this_id)
    own = next((tree for tree in trees if any(node.run.run_id == this_id for node in tree)), [])
    limits = own[0].run.limits if own else None
    levels = Counter(node.depth for node in own if node.depth)
    nodes = [node for tree in trees for node in tree]
    whole = totals["runs"] > sum(not member.is_live for member in members)
    used = totals if whole else {name: sum(getattr(n.run, name) for n in own) for name in ("cost", "steps")}
    kinds = (("max_cost", used["cost"]), ("max_steps", used["steps"]))
    return TaskTree(
        task_id=task_id,
        nodes=nodes,
        attempts=[node.run for node in nodes if not node.depth and not node.missing_parent],
        runs=totals["runs"],
        live=sum(member.is_live for member in members),
        cost=totals["cost"],
        steps=totals["steps"],
        descendants=len(own) - 1,
        descendants_limit=whole_limit("descendants", limits or {}),
        breadth=max(levels.values(), default=0),
        depth=max(levels, default=0),
        hops_limit=whole_limit("hops", limits or {}),
        pressures=[found for name, amount in kinds if (found := pressure_on(name, amount, limits or {}))],
        refused=refused[:REFUSALS],
        more_refused=len(refused) > REFUSALS,
    )


def _trees(members: Sequence[Member], this_id: UUID) -> list[list[Node]]:
    """Return a list a root, each in the order of its rows: a run, then the runs that it started."""
    ordered = sorted(members, key=lambda member: (member.attempt, member.started_at, member.run_id))
    stored = {name: member.run_id for member in members for name in member.names}
    children: dict[UUID | None, list[Member]] = defaultdict(list)
    for member in ordered:
        parent = stored.get(member.parent_run_id)
        children[None if parent == member.run_id else parent].append(member)
    this = next((member for member in members if member.run_id == this_id), None)
    placed: set[UUID] = set()

    def walk(member: Member, depth: int) -> list[Node]:
        placed.add(member.run_id)
        below = [
            node
            for child in children[member.run_id]
            if child.run_id not in placed
            for node in walk(child, depth + 1)
        ]
        missing = depth == 0 and member.parent_run_id is not None
        return [Node(member, depth, len(below), _badge(member, this), missing), *below]

    trees = [walk(member, 0) for member in children[None]]
    # What is left has only itself for an ancestor.
    return trees + [walk(member, 0) for member in ordered if member.run_id not in placed]


def _badge(member: Member, this: Member | None) -> str:
    if this is None:
        return ""
    if member.run_id == this.run_id:
        return "this run"
    if this.parent_run_id in member.names:
        return "parent"
    if this.resumed_from in member.names:
        return "resumed here"
    return "child" if member.parent_run_id in this.names else ""
