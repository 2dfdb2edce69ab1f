"""Views of lists that people save for themselves: the only place that writes them."""

from __future__ import annotations

from django.db import transaction
from django.http import Http404

from .errors import GuardOpsError
from .models import SavedView, User

MAX_VIEWS = 50
"""How many a person may have of one list."""


class InvalidView(GuardOpsError):
    """A view of a list can't be saved so: ``taken`` or ``too_many``."""

    default_code = "invalid_view"


def view_or_404(owner: User, page: str, view_id: int) -> SavedView:
    """Return a view of ``owner``; raises Http404 for all others alike."""
    view = owner.saved_views.filter(page=page, pk=view_id).first()
    if view is None:
        raise Http404("No such view.")
    return view


def save_view(*, owner: User, page: str, name: str, query: str) -> SavedView:
    """Keep ``query`` of a list under a name; raises InvalidView: ``taken`` or ``too_many``."""
    with transaction.atomic():
        _hold_views_of(owner)
        _refuse_taken(owner, page, name)
        if owner.saved_views.filter(page=page).count() >= MAX_VIEWS:
            raise InvalidView(f"You have {MAX_VIEWS} views of this list; delete one first.", code="too_many")
        return owner.saved_views.create(page=page, name=name, query=query)


def rename_view(view: SavedView, name: str) -> None:
    """Give a view another name; raises InvalidView where its owner has one of that name: ``taken``."""
    with transaction.atomic():
        _hold_views_of(view.owner)
        if name != view.name:
            _refuse_taken(view.owner, view.page, name)
        view.name = name
        view.save(update_fields=["name"])


def delete_view(view: SavedView) -> None:
    view.delete()


def _hold_views_of(owner: User) -> None:
    # Locked: two tabs at once neither take the same name nor pass the bound.
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)


def _refuse_taken(owner: User, page: str, name: str) -> None:
    if owner.saved_views.filter(page=page, name=name).exists():
        raise InvalidView("You have a view of this name already; choose another.", code="taken")
