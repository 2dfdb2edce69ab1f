"""The page of one's own account, and the way into the settings."""

from __future__ import annotations

from copy import copy

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from guardops.tenants.errors import TooManyTries
from guardops.tenants.forms.account import AccountForm
from guardops.tenants.people import update_account
from guardops.tenants.settings_nav import pages_for
from guardops.tenants.throttle import Guess

from .requests import AuthenticatedRequest
from .throttled import too_many, try_of


@require_safe
def settings(request: AuthenticatedRequest) -> HttpResponse:
    return redirect(pages_for(request.user)[0].view)


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def account(request: AuthenticatedRequest) -> HttpResponse:
    # A form writes what it reads into its person; the one of the request stays as it is until it is saved.
    form = AccountForm(request.POST if request.method == "POST" else None, instance=copy(request.user))
    try:
        taken = (
            try_of(request, Guess.PASSWORD, request.user.get_username()) if form.asks_for_password else None
        )
    except TooManyTries as error:
        return too_many(request, error)
    if not form.is_valid():
        roles = request.user.memberships.select_related("organisation", "tenant")
        return render(
            request,
            "tenants/account.html",
            {"form": form, "roles": roles.order_by("organisation__slug", "tenant__slug")},
        )
    if taken is not None:
        taken.succeeded(timezone.now())
    chosen = form.cleaned_data
    update_account(request.user, **{name: chosen[name] for name in AccountForm.Meta.fields})
    messages.success(request, "Saved.")
    return redirect("tenants:account")
