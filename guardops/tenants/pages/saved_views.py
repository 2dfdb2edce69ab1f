"""Saved views of lists: each person's own, so there is nothing to ask of their roles."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from guardops.shown import visible_text
from guardops.tenants.forms.saved_views import NameForm, SaveForm
from guardops.tenants.list_pages import ListPage, list_page
from guardops.tenants.saved_views import delete_view, view_or_404

from .requests import AuthenticatedRequest


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def saved_views(request: AuthenticatedRequest, page: str) -> HttpResponse:
    """List somebody's views of a list, and save one more."""
    shown = list_page(page)
    if request.method != "POST":
        return _page(request, shown)
    form = SaveForm(request.POST, page=shown, owner=request.user)
    view = form.save() if form.is_valid() else None
    if view is None:
        return _page(request, shown, form=form)
    messages.success(request, f"Saved as “{visible_text(view.name)}”.")
    return redirect(shown.address(view.query))


@never_cache
@require_POST
def rename(request: AuthenticatedRequest, page: str, view_id: int) -> HttpResponse:
    shown, view = list_page(page), view_or_404(request.user, page, view_id)
    form = NameForm(request.POST, prefix=str(view.pk))
    if not (form.is_valid() and form.rename(view)):
        return _page(request, shown, renaming=form)
    messages.success(request, f"Renamed to “{visible_text(view.name)}”.")
    return redirect("tenants:saved-views", page)


@never_cache
@require_POST
def delete(request: AuthenticatedRequest, page: str, view_id: int) -> HttpResponse:
    shown, view = list_page(page), view_or_404(request.user, page, view_id)
    delete_view(view)
    messages.success(request, f"Deleted “{visible_text(view.name)}”.")
    return redirect("tenants:saved-views", shown.name)


def _page(
    request: AuthenticatedRequest,
    shown: ListPage,
    *,
    form: SaveForm | None = None,
    renaming: NameForm | None = None,
) -> HttpResponse:
    views = list(request.user.saved_views.filter(page=shown.name))
    rows = [
        (
            view,
            shown.address(view.query),
            [(name, ", ".join(values)) for name, values in QueryDict(view.query).lists()],
            renaming if renaming and renaming.prefix == str(view.pk) else None,
        )
        for view in views
    ]
    context = {"shown": shown, "rows": rows, "form": form, "list_address": shown.address("")}
    return render(request, "tenants/saved_views.html", context)
