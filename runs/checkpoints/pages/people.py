"""Who may act on checkpoints: people who are signed in, never whoever comes with an API key."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse

from guardops.tenants.pages.requests import AuthenticatedRequest

View = Callable[..., HttpResponse]


def for_people(view: View) -> View:
    """Refuse who brings a key instead of a session; send everybody else who is nobody to sign in.

    An agent that has a key of its tenant must not decide on itself.
    """

    @login_not_required  # asked here, so that a key is refused and not sent to a form
    @wraps(view)
    def asked(request: AuthenticatedRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.user.is_authenticated:
            return view(request, *args, **kwargs)
        if request.headers.get("Authorization"):
            raise PermissionDenied("A person decides this, signed in with a role of their own. No key can.")
        return redirect_to_login(request.get_full_path())

    return asked
