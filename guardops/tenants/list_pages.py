"""Lists that can be seen again as they were: each says itself what of an address it understands.

An app registers its lists when it is ready, so that this layer knows none of them by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import Http404
from django.urls import reverse

from guardops.addresses import without

if TYPE_CHECKING:
    from django import forms
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


def register(*pages: ListPage) -> None:
    """Let people save views of these lists."""
    _pages.update({page.name: page for page in pages})


def understood(
    params: QueryDict,
    form_of: Callable[[QueryDict], forms.Form],
    *,
    together: tuple[str, ...] = (),
    beside: tuple[str, ...] = (),
) -> QueryDict:
    """Return the parameters but for those that the list's form does not know or finds wrong.

    Where one of those read ``together`` is wrong, all are. Those ``beside`` the form are kept as they are.
    """
    while wrong := _wrong(form_of(params), together) & set(params) - set(beside):
        params = without(params, *wrong)
    return params


def _wrong(form: forms.Form, together: tuple[str, ...]) -> set[str]:
    wrong = {*form.errors, *(set(form.data) - set(form.fields))}
    return wrong | set(together) if wrong & set(together) else wrong


def list_page(name: str) -> ListPage:
    """Return the list of that name; raises Http404 where there is none."""
    try:
        return _pages[name]
    except KeyError:
        raise Http404("No such list.") from None
