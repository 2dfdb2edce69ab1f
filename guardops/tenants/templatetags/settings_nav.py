from __future__ import annotations

from typing import Any

from django import template
from django.urls import reverse

from guardops.tenants.settings_nav import pages_for

register = template.Library()


@register.simple_tag(takes_context=True)
def settings_links(context: template.Context) -> list[dict[str, Any]]:
    """The links between the pages of settings that the person may open, with the current one marked."""
    request: Any = context["request"]
    here = request.resolver_match.view_name
    return [
        {
            "url": reverse(page.view),
            "label": page.label,
            "current": "page" if here == page.view else "true" if here.startswith(page.also) else "",
        }
        for page in pages_for(request.user)
    ]
