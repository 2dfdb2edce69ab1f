"""What the demo's reviewer decided on the runs that were handed to a person, and that it was carried out.

The decisions are of the past and made by the verbs that people's are made by. A task that was started again
has a decision that its second attempt has consumed; the others still wait, or expire.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from guardops.guard.decisions import Consume, DecisionAction, DecisionChange, Reconciled
from guardops.guard.reasons import Reason
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Organisation, Tenant, User
from policies.models import JobPolicy
from policies.publish.policies import Place, save_policy
from runs.checkpoints.choice import UNDO, Choice
from runs.checkpoints.claims import claim
from runs.checkpoints.decide import decide
from runs.checkpoints.deliver import consume, hand_out
from runs.checkpoints.notes import add_note
from runs.checkpoints.packet import read_packet
from runs.choices import StopVerdict
from runs.models import Checkpoint, Decision, Run
from runs.reports.metrics import Scope, Window
from runs.review.quality import draw_sample
from runs.review.stops import judged_reason, review_stop

from .demo_tenants import DemoTenant
from .timing import fraction

REVIEWED, FALSE = 40, 0.12
"""How many stops of each tenant are reviewed, and the share of them that were wrong."""
MOST_ADDED = {"steps": 20, "seconds": 600, "cost": "2.00"}
BEFORE = timedelta(minutes=4)
"""A decision was made so long before the next attempt began."""
_SAID = {
    Reason.UNCERTAIN_WRITE: (
        "The refund is in the ledger of payments.",
        "The refund was made; do not repeat it.",
    ),
    Reason.TOOL_AUTH_ERROR: ("The credentials were renewed.", "Try the order system again."),
    Reason.QUOTA_EXHAUSTED: ("The quota was raised.", "Search the help again."),
}
_ELSE = ("The tests that fail name the two files that matter.", "Change only what the failing tests name.")


def review_checkpoints(
    demo: Sequence[DemoTenant],
    now: datetime,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Decide what the demo's second attempts rest on, and claim one that waits; ``say`` hears how many."""
    reviewer = User.objects.filter(username="demo-reviewer").first()
    tenants = Tenant.objects.with_role(reviewer, Role.REVIEWER) if reviewer else Tenant.objects.none()
    made: list[tuple[Decision, Run]] = []
    for tenant in tenants.filter(slug__in=[plan.slug for plan in demo]).order_by("slug"):
        made += _decide_all(tenant, reviewer)  # type: ignore[arg-type]
        waiting = Checkpoint.objects.for_tenants([tenant.pk]).waiting().filter(expires_at__gt=now)
        if reviewer is not None and (first := waiting.order_by("due_at").first()) is not None:
            claim(first, actor=reviewer, now=now)
            add_note(first, "Asked the team that owns it; back in ten minutes.", actor=reviewer, now=now)
    if not made:
        return
    say("Waiting for the ten seconds in which a decision can be taken back.")
    sleep(UNDO.total_seconds() + 0.5)
    for decision, again in made:
        _carry_out(decision, again)
    say(f"demo-reviewer decided {len(made)} of the runs that were handed to a person.")


def _decide_all(tenant: Tenant, reviewer: User) -> list[tuple[Decision, Run]]:
    """Decide the tenant's checkpoints whose task has a second attempt."""
    waiting = list(Checkpoint.objects.for_tenants([tenant.pk]).waiting().select_related("tenant"))
    again = _second_attempts(tenant, [checkpoint.run_id for checkpoint in waiting if checkpoint.run_id])
    made = []
    for checkpoint in waiting:
        if (run := again.get(checkpoint.run_id)) is not None:
            at = run.started_at - BEFORE
            choice = _choice(checkpoint)
            made.append((decide(checkpoint, choice, actor=reviewer, now=at, version=checkpoint.version), run))
    return made


def _second_attempts(tenant: Tenant, run_ids: Sequence[UUID]) -> dict[UUID | None, Run]:
    runs = Run.objects.for_tenants([tenant.pk]).filter(attempt=2, resumed_from__in=run_ids)
    return {run.resumed_from: run for run in runs.without_detail()}


def _choice(checkpoint: Checkpoint) -> Choice:
    packet = read_packet(checkpoint)
    if packet.refused is not None:
        return Choice(DecisionAction.APPROVE, reason="The carrier has admitted the delay.")
    reason, told = _SAID.get(Reason(checkpoint.reason), _ELSE)
    return Choice(
        DecisionAction.RESUME,
        reason=reason,
        change=DecisionChange(evidence=told),
        reconciled=tuple(
            Reconciled(tool=call.tool, args_hash=call.args_hash, happened=True) for call in packet.uncertain
        ),
    )


def _carry_out(decision: Decision, again: Run) -> None:
    """Hand the decision out and let the second attempt consume it, as it began."""
    handed_out = hand_out(decision.pk, again.started_at - BEFORE / 2)
    if handed_out is None:
        return  # somebody took it back in the meantime
    wanted = Consume(
        decision_id=decision.pk, attempt_id=again.run_id, artifact_digest=decision.artifact_digest
    )
    consume(decision.tenant_id, handed_out.checkpoint_id, wanted, again.started_at)


def review_stops(demo: Sequence[DemoTenant], now: datetime) -> int:
    """Let the reviewer say of some stops whether they were right; return of how many.

    Most are of the sample by chance that the page of guard quality draws; one in eight was wrong.
    """
    reviewer = User.objects.filter(username="demo-reviewer").first()
    if reviewer is None:
        return 0
    end = now + timedelta(minutes=1)
    window = Window(end - timedelta(days=14), end, timedelta(days=1))
    reviewed = 0
    for tenant in Tenant.objects.with_role(reviewer, Role.REVIEWER).filter(
        slug__in=[plan.slug for plan in demo]
    ):
        for drawn in draw_sample(Scope((tenant.pk,)), window, {}, REVIEWED):
            false = fraction(str(drawn.run.run_id), "false stop") < FALSE
            review_stop(
                drawn.run,
                verdict=StopVerdict.FALSE_STOP if false else StopVerdict.RIGHT_STOP,
                detector=judged_reason(drawn.run),
                note="It had found a new source just before." if false else "",
                actor=reviewer,
                now=now,
                seen=None,
            )
            reviewed += 1
    return reviewed


def allow_more(demo: Sequence[DemoTenant], now: datetime) -> None:
    """Let reviewers add to a run's budget, where no policy of the demo's organisations says anything yet."""
    slugs = {plan.organisation for plan in demo}
    known = JobPolicy.objects.values("organisation")
    for organisation in Organisation.objects.filter(slug__in=slugs).exclude(pk__in=known):
        place = Place(organisation, None, "")
        save_policy(place, {"review": {"resume_max": MOST_ADDED}}, seen=0, actor=SYSTEM, now=now)
