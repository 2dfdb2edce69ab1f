"""The page that an invitation's link opens; it needs no session."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from guardops.shown import visible_text
from guardops.tenants.choices import Role
from guardops.tenants.errors import InvalidInvitation, TooManyTries
from guardops.tenants.forms.people import WHAT_ROLES_MAY, NewPersonForm
from guardops.tenants.invitations import accept, accept_as_new, find_invitation, mail_address_of
from guardops.tenants.models import Invitation
from guardops.tenants.throttle import Guess

from .passwords import sign_in
from .throttled import too_many, try_of


@sensitive_post_parameters()
@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    try:
        found = find_invitation(token, timezone.now())
        if request.user.is_authenticated:
            return _join(request, found, token)
        if request.method == "POST":
            try_of(request, Guess.JOIN, token)  # a link is no means to learn which names are taken
        return _begin(request, found, token)
    except TooManyTries as error:
        return too_many(request, error)
    except InvalidInvitation as error:
        status = 404 if error.code == "unknown" else 410
        return render(request, "tenants/invitation_dead.html", {"error": error}, status=status)


def _join(request: HttpRequest, found: Invitation, token: str) -> HttpResponse:
    """Ask who is signed in already, and give them the role."""
    if request.method != "POST":
        return render(request, "tenants/invitation_join.html", _shown(found))
    assert request.user.is_authenticated
    accept(token, user=request.user, now=timezone.now())
    return _welcome(request, found)


def _begin(request: HttpRequest, found: Invitation, token: str) -> HttpResponse:
    """Make a new person; one who has an account signs in first."""
    data = request.POST if request.method == "POST" else None
    form = NewPersonForm(data, initial={"email": mail_address_of(found)})
    if form.is_valid():
        chosen = form.cleaned_data
        try:
            user = accept_as_new(
                token,
                username=chosen["username"],
                email=chosen["email"],
                password=chosen["password1"],
                now=timezone.now(),
            )
        except ValidationError as error:
            form.add_error(None, error)
        else:
            sign_in(request, user)
            return _welcome(request, found)
    return render(request, "tenants/invitation_new.html", _shown(found) | {"form": form})


def _welcome(request: HttpRequest, found: Invitation) -> HttpResponse:
    place = found.tenant or found.organisation
    messages.success(request, f"Welcome to {visible_text(place.name)}.")
    return redirect("runs:overview")


def _shown(found: Invitation) -> dict[str, object]:
    role = Role(found.role)
    return {"invitation": found, "role": role.label.lower(), "may": WHAT_ROLES_MAY[role]}
