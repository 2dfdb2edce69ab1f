from __future__ import annotations

from django.http import HttpRequest

from guardops.tenants.models import User


class AuthenticatedRequest(HttpRequest):
    """What LoginRequiredMiddleware lets through."""

    user: User
