"""Starting points for policies, to be taken over into the editor and changed there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    """A document to begin with, and in words whom it suits and what it allows."""

    slug: str
    label: str
    help: str
    document: Mapping[str, Any]


PRESETS = (
    Preset(
        "lookup",
        "Read-only lookup",
        "10 turns; a call that failed for good is made once, one that may pass up to 3 times",
        {"limits": {"max_turns": 10, "max_steps": 10, "max_retries": 2}},
    ),
    Preset(
        "write",
        "Single write",
        "12 turns; each call once",
        {"limits": {"max_turns": 12, "max_steps": 12, "max_repeats": 1, "max_retries": 0}},
    ),
    Preset(
        "research",
        "Multi-step research",
        "40 turns; the same call twice",
        {"limits": {"max_turns": 40, "max_steps": 40, "max_repeats": 2, "max_retries": 1}},
    ),
    Preset(
        "human",
        "Human in the loop",
        "until a person approves or a budget is used up; each call once, and never a forced answer",
        {"limits": {"max_turns": 500, "max_repeats": 1, "max_retries": 0}, "partial_ok": False},
    ),
)


def preset_named(slug: str) -> Preset | None:
    return next((preset for preset in PRESETS if preset.slug == slug), None)
