"""Lists that can be seen again as they were: each says itself what of an address it understands.

An app registers its lists when it is ready, so that this layer knows none of them by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import Http404
from django.urls import reverse

if TYPE_CHECKING:
    from django.http import QueryDict

    from .models import User


@dataclass(frozen=True, slots=True)
class ListPage:
    """A list: its ``name`` in addresses, the name of its URL, and its title.

    ``kept`` returns of the parameters those that the list understands and that the person may use.
    """

    name: str
    view: str
    title: str
    kept: Callable[[QueryDict, User], QueryDict]

    def address(self, query: str) -> str:
        """Return the address of the list with that query."""
        return f"{reverse(self.view)}?{query}" if query else reverse(self.view)


_pages: dict[str, ListPage] = {}


def register(page: ListPage) -> None:
    """Let people save views of a list."""
    _pages[page.name] = page


def list_page(name: str) -> ListPage:
    """Return the list of that name; raises Http404 where there is none."""
    try:
        return _pages[name]
    except KeyError:
        raise Http404("No such list.") from None
