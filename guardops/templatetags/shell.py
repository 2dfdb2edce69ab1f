"""Tags of the page around the pages: icons of the sprite, links of the navigation."""

from __future__ import annotations

from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """An icon of ``_sprite.html``; it says nothing to screen readers, so a word stands beside it."""
    return format_html('<svg class="i {}" aria-hidden="true"><use href="#i-{}"/></svg>', extra, name)


@register.simple_tag(takes_context=True)
def nav_link(
    context: template.Context, view: str, label: str, image: str, *also: str, key: str = "", count: int = 0
) -> SafeString:
    """A link of the navigation, marked as current on its page and where the view starts with ``also``.

    ``key`` are the keys that open it, such as ``g o``; ``count`` is how many things wait behind it.
    """
    request: Any = context.get("request")
    match = request.resolver_match if request else None
    here = match.view_name if match else ""
    current = (
        format_html(' aria-current="{}"', "page" if here == view else "true")
        if here.startswith((view, *also))
        else ""
    )
    return format_html(
        '<a class="nav-link" href="{}"{}{}>{}<span class="label">{}</span>{}</a>',
        reverse(view),
        current,
        format_html(' data-key="{}" data-key-label="Go to {}"', key, label) if key else "",
        icon(image),
        label,
        format_html('<span class="count"><span class="vh">, waiting: </span>{}</span>', _short(count))
        if count
        else "",
    )


def _short(count: int) -> str:
    return str(count) if count < 1_000 else "999+"
