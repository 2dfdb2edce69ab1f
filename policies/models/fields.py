from __future__ import annotations

from typing import Any

import pgtrigger
from django.db import models

WRITING = "guardops.publishing"
"""A setting local to a transaction: only where `policies.publish` has turned it on are these rows written."""

PUBLISHED = pgtrigger.Trigger(
    name="published",
    when=pgtrigger.Before,
    operation=pgtrigger.Insert | pgtrigger.Update | pgtrigger.Delete,
    func=f"""
        IF current_setting('{WRITING}', true) IS DISTINCT FROM 'on' THEN
            RAISE EXCEPTION 'Rows of % are written by policies.publish alone.', TG_TABLE_NAME;
        END IF;
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        RETURN NEW;
    """,
)

IMMUTABLE = pgtrigger.Trigger(
    name="immutable",
    when=pgtrigger.Before,
    operation=pgtrigger.Update | pgtrigger.Delete,
    func="RAISE EXCEPTION 'Rows of % are never changed.', TG_TABLE_NAME;",
)


def text(**options: Any) -> models.TextField[str, str]:
    return models.TextField(default="", blank=True, **options)
