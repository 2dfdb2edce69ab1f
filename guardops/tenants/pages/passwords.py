"""Pages of passwords: changed by who knows the old one, reset by who gets a link."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from guardops.tenants import mail
from guardops.tenants.actors import acting
from guardops.tenants.client_address import client_address
from guardops.tenants.errors import InvalidLink, TooManyTries
from guardops.tenants.forms.account import ChangePasswordForm, NewPasswordForm, ResetForm
from guardops.tenants.models import User
from guardops.tenants.passwords import (
    change_password,
    find_by_link,
    reset_password,
    reset_path,
    who_may_reset,
)
from guardops.tenants.throttle import Guess, know

from .requests import AuthenticatedRequest
from .throttled import too_many, try_of

RESET_MAIL = """Somebody, probably you, asked for a new password for {name} on GuardOps.

This link sets one. It works for one hour, and once:

{link}

If it was not you, do nothing: the password stays as it is.
"""


@sensitive_post_parameters()
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def change(request: AuthenticatedRequest) -> HttpResponse:
    if request.method != "POST":
        return render(request, "tenants/password_change.html", {"form": ChangePasswordForm(request.user)})
    try:
        taken = try_of(request, Guess.PASSWORD, request.user.get_username())
    except TooManyTries as error:
        return too_many(request, error)
    form = ChangePasswordForm(request.user, request.POST)
    valid = form.is_valid()
    if "old_password" in form.cleaned_data:
        taken.succeeded(timezone.now())
    if not valid:
        return render(request, "tenants/password_change.html", {"form": form})
    change_password(request.user, form.cleaned_data["new_password1"])
    update_session_auth_hash(request, request.user)
    messages.success(request, "Your password is changed. You are signed out everywhere else.")
    return redirect("tenants:account")


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def forgotten(request: HttpRequest) -> HttpResponse:
    if not mail.is_configured():
        return render(request, "tenants/password_no_mail.html")
    form = ResetForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        return render(request, "tenants/password_forgotten.html", {"form": form})
    try:
        try_of(request, Guess.RESET, form.cleaned_data["who"])
    except TooManyTries as error:
        return too_many(request, error)
    for user in who_may_reset(form.cleaned_data["who"]):
        # A thread sends it, so that the answer takes as long for a name that nobody has.
        link = request.build_absolute_uri(reset_path(user))
        text = RESET_MAIL.format(name=user.get_username(), link=link)
        mail.send_soon(to=user.email, subject="A new password for GuardOps", text=text)
    return render(request, "tenants/password_sent.html")


@sensitive_post_parameters()
@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def by_link(request: HttpRequest, uid: str, token: str) -> HttpResponse:
    try:
        form = NewPasswordForm(find_by_link(uid, token), request.POST if request.method == "POST" else None)
        if not form.is_valid():
            return render(request, "tenants/password_link.html", {"form": form})
        user = reset_password(uid, token, form.cleaned_data["new_password1"])
    except InvalidLink:
        return render(request, "tenants/password_link_dead.html", status=404)
    sign_in(request, user)
    messages.success(request, "Your new password is set. You are signed out everywhere else.")
    return redirect("runs:overview")


def sign_in(request: HttpRequest, user: User) -> None:
    """Open a session, with a new key, for who has just set the password; their address is known now."""
    know(Guess.PASSWORD, name=user.get_username(), address=client_address(request), now=timezone.now())
    with acting(user):
        login(request, user, backend="django.contrib.auth.backends.ModelBackend")
