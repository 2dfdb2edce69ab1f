"""The menu of saved views in the bar of a list."""

from __future__ import annotations

from typing import Any

from django import template
from django.http import QueryDict

from guardops.addresses import first_page, tidy
from guardops.tenants.list_pages import list_page

register = template.Library()


@register.inclusion_tag("tenants/_saved_views.html", takes_context=True)
def saved_views(context: template.Context, page: str) -> dict[str, Any]:
    """Show the person's views of the list with that name, the one that is open marked, and save another."""
    request: Any = context["request"]
    shown = list_page(page)
    asked = first_page(tidy(request.GET))
    views = [
        (view, shown.address(view.query), _same(asked, QueryDict(view.query)))
        for view in request.user.saved_views.filter(page=page)
    ]
    return {
        "shown": shown,
        "views": views,
        "current": next((view for view, _, is_open in views if is_open), None),
        "query": asked.urlencode(),
    }


def _same(one: QueryDict, other: QueryDict) -> bool:
    return sorted(one.lists()) == sorted(other.lists())
