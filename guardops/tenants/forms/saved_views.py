from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.http import QueryDict

from guardops.addresses import first_page, tidy
from guardops.tenants.models import MAX_VIEW_QUERY
from guardops.tenants.saved_views import InvalidView, rename_view, save_view

if TYPE_CHECKING:
    from guardops.tenants.list_pages import ListPage
    from guardops.tenants.models import SavedView, User


class NameForm(forms.Form):
    """Asks for the name of a view, and renames one."""

    name = forms.CharField(max_length=64, error_messages={"required": "Give the view a name."})

    def rename(self, view: SavedView) -> bool:
        """Say whether it was done; if not, the form says why."""
        try:
            rename_view(view, self.cleaned_data["name"])
        except InvalidView as error:
            self.add_error("name", error.message)
            return False
        return True


class SaveForm(NameForm):
    """Asks for a view's name; what it keeps of the list's address comes with it."""

    query = forms.CharField(
        max_length=2 * MAX_VIEW_QUERY, required=False, strip=False, widget=forms.HiddenInput
    )

    def __init__(self, *args: Any, page: ListPage, owner: User, **options: Any) -> None:
        super().__init__(*args, **options)
        self.page, self.owner = page, owner

    def clean_query(self) -> str:
        asked = first_page(tidy(QueryDict(self.cleaned_data["query"])))
        query = self.page.kept(asked, self.owner).urlencode()
        if len(query) > MAX_VIEW_QUERY:
            raise forms.ValidationError("These filters are too long to save.")
        return query

    def save(self) -> SavedView | None:
        """Return the new view, or None where the form now says why there is none."""
        try:
            return save_view(owner=self.owner, page=self.page.name, **self.cleaned_data)
        except InvalidView as error:
            self.add_error("name", error.message)
            return None
