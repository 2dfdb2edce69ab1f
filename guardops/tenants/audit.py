"""The audit trail: PostgreSQL triggers copy every change of an audited table, also by bulk and raw SQL.

The rows are written in the transaction that changes something, by whoever does it; ``actors.acting`` puts the
actor into them. They can be added and read, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pghistory
import pgtrigger
from django.db import models
from django.db.models import F
from django.db.models.fields.json import KeyTransform

Model = TypeVar("Model", bound=models.Model)


def audited(
    event_model: str, *, exclude: Sequence[str] = (), extra: Sequence[pghistory.RowEvent] = ()
) -> Callable[[type[Model]], type[Model]]:
    """Record inserts, updates and deletes of a model in ``event_model``, without the fields in ``exclude``.

    A change of excluded fields alone leaves no row; ``extra`` adds events of their own for such.
    """
    track: Callable[[type[Model]], type[Model]] = pghistory.track(
        pghistory.InsertEvent(),
        pghistory.UpdateEvent(),
        pghistory.DeleteEvent(),
        *extra,
        exclude=list(exclude),
        model_name=event_model,
        # In the row itself: a context row of its own could be changed after the fact.
        context_field=pghistory.ContextJSONField(),
        append_only=True,
        meta={
            "indexes": _indexes(event_model.removesuffix("Event").lower()),
            "triggers": [
                pgtrigger.Trigger(
                    name="no_truncate",
                    level=pgtrigger.Statement,
                    when=pgtrigger.Before,
                    operation=pgtrigger.Truncate,
                    func="RAISE EXCEPTION 'The audit trail % is never emptied.', TG_TABLE_NAME;",
                )
            ],
        },
    )
    return track


def _indexes(name: str) -> list[models.Index]:
    newest = (F("pgh_created_at").desc(), F("pgh_id").desc())
    actor = KeyTransform("name", KeyTransform("actor", "pgh_context"))
    return [
        models.Index(*newest, name=f"{name}_trail"),  # the trail, newest first
        models.Index(actor, *newest, name=f"{name}_trail_actor"),  # what one actor did
        models.Index("pgh_label", *newest, name=f"{name}_trail_action"),  # rare actions: removals, passwords
        models.Index("pgh_obj", F("pgh_id").desc(), name=f"{name}_trail_before"),  # a row's own last one
    ]
