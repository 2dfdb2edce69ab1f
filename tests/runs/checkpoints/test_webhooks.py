from __future__ import annotations

from datetime import datetime

import msgspec
import pytest

from guardops.guard import decisions as wire
from guardops.tenants.models import User
from runs.checkpoints.decide import undo
from runs.checkpoints.webhooks import body_of
from runs.choices import SubjectKind
from runs.models import Checkpoint, Decision
from runs.notify import subjects
from tests.factories import let_undo_time_pass

from .deciding import decided

pytestmark = pytest.mark.django_db


def test_a_webhook_is_sent_the_document_that_a_guard_gets(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    decision = let_undo_time_pass(decided(checkpoint, ann, now))
    body = subjects.body_of(SubjectKind.DECISION, decision.pk)
    assert body is not None
    said = msgspec.json.decode(body, type=wire.Decision)
    assert (said.decision_id, said.checkpoint_id) == (decision.pk, checkpoint.checkpoint_id)
    assert (said.action, said.kid is not None, len(said.signature or "")) == ("resume", True, 64)
    assert Decision.objects.get(pk=decision.pk).delivered_at is not None


def test_a_decision_that_can_be_undone_or_was_is_sent_to_nobody(
    checkpoint: Checkpoint, ann: User, now: datetime
) -> None:
    decision = decided(checkpoint, ann, now)
    assert body_of(decision.pk) is None
    undo(decision, actor=ann, now=now)
    assert body_of(decision.pk) is None
    assert Decision.objects.get(pk=decision.pk).delivered_at is None
