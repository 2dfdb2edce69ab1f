"""Tags that show what a run is: its outcome, its halt reason, what marks it as looping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from guardops.guard.reasons import family_of
from guardops.templatetags.shell import icon
from guardops.templatetags.shown import visible
from runs.choices import Outcome
from runs.reasons_text import clause

if TYPE_CHECKING:
    from runs.models import Run

register = template.Library()

_OUTCOMES: dict[str, tuple[str, str]] = {
    Outcome.COMPLETED: ("ok", "ok"),
    Outcome.COMPLETED_FORCED: ("forced", "warn"),
    Outcome.UNRESOLVED: ("ask", "warn"),
    Outcome.ESCALATED: ("escalate", "warn"),
    Outcome.HALTED: ("halt", "danger"),
    Outcome.CANCELLED: ("cancel", ""),
    Outcome.FAILED: ("fail", "danger"),
}


@register.filter
def outcome(value: str, shape: str = "st") -> SafeString:
    """An outcome as icon, word and colour: ``st`` in tables, ``pill`` as the state of a page."""
    image, severity = _OUTCOMES[value]
    return state(shape, severity, image, Outcome(value).label)


def state(shape: str, severity: str, image: str, words: str) -> SafeString:
    kind = f"{shape} {shape}-{severity}" if severity else shape
    return format_html('<span class="{}">{}{}</span>', kind, icon(image), words)


@register.filter
def reason(code: str) -> SafeString:
    """A halt reason as its family's swatch and its code, what it means in its title; a dash for none."""
    if not code:
        return format_html('<span class="muted">{}</span>', "–")
    return format_html(
        '<span class="reason" title="{}"><span class="swatch k-{}"></span><code>{}</code></span>',
        clause(code).capitalize(),
        family_of(code),
        visible(code),
    )


def any_marks(run: Run) -> bool:
    return bool(run.looped or run.blocked or run.duplicates or run.provider_failure)


@register.filter
def marks(run: Run) -> SafeString:
    """What marks a run as looping: the loop rate, blocked and duplicate calls, a provider's failure."""
    duplicates = "duplicate" if run.duplicates == 1 else "duplicates"
    found = [
        state("st", severity, image, words)
        for there, severity, image, words in (
            (run.looped, "warn", "repeat", "loop"),
            (run.blocked, "", "blocked", f"{run.blocked:,} blocked"),
            (run.duplicates, "", "copy", f"{run.duplicates:,} {duplicates}"),
            (run.provider_failure, "", "warn", "provider failure"),
        )
        if there
    ]
    if not found:
        return format_html('<span class="muted">{}</span>', "–")
    return format_html(
        '<span class="marks">{}</span>', format_html_join("", "{}", ((mark,) for mark in found))
    )
