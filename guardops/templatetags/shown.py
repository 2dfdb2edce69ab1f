"""Tags and filters that write values for people (`guardops.shown`)."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from django import template
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from guardops import shown

register = template.Library()


@register.filter
def visible(value: object) -> SafeString:
    """Text that others wrote: isolated from the text around it, with every unseen character shown by name."""
    if value is None:
        return format_html("{}", "")
    parts = format_html_join(
        "",
        "{}",
        (
            (format_html('<span class="unseen">{}</span>', part) if unseen else part,)
            for unseen, part in shown.runs_of_text(str(value))
        ),
    )
    return format_html("<bdi>{}</bdi>", parts)


@register.filter
def visible_text(value: object) -> str:
    """The same for attributes and options, which hold no markup."""
    return "" if value is None else shown.visible_text(value)


@register.filter
def count(value: int | None) -> str:
    return "–" if value is None else shown.count(value)


@register.filter
def number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else shown.number(value, digits)


@register.filter
def measure(value: float) -> str:
    """A count, or seconds: whole where it is or is large, else with one digit."""
    return shown.number(value, 0 if value >= 10 or value == int(value) else 1)


@register.filter
def money(value: Decimal | None) -> str:
    return "–" if value is None else shown.money(value)


@register.filter
def share(value: float | None) -> str:
    return "–" if value is None else shown.share(value)


@register.filter
def milliseconds(value: int | None) -> str:
    return "–" if value is None else shown.duration(timedelta(milliseconds=value))


@register.simple_tag
def clock(moment: datetime) -> SafeString:
    """The time of day in the viewer's zone, the date in its title."""
    local = timezone.localtime(moment)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        _machine(moment),
        f"{local:%Y-%m-%d %H:%M:%S} {local.tzname()}",
        f"{local:%H:%M:%S} {local.tzname()}",
    )


@register.simple_tag(takes_context=True)
def when(context: template.Context, moment: datetime | None) -> SafeString:
    """A moment as ``8 min ago, 03:06:32 UTC``, with its date where that is not today."""
    if moment is None:
        return format_html("{}", "–")
    now = context.get("as_of") or timezone.now()
    local, today = timezone.localtime(moment), timezone.localtime(now).date()
    day = (
        "" if local.date() == today else f"{local:%d %b}{'' if local.year == today.year else f' {local:%Y}'} "
    )
    return format_html(
        '<time datetime="{}">{}, <span class="muted nowrap">{}</span></time>',
        _machine(moment),
        shown.ago(moment, now),
        f"{day}{local:%H:%M:%S} {local.tzname()}",
    )


def _machine(moment: datetime) -> str:
    return moment.astimezone(timezone.get_default_timezone()).isoformat(timespec="milliseconds")
