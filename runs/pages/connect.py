"""Connect: a fresh key, what to put beside an agent, and a line that turns green with the first event."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from guardops.htmx import wants_fragment
from guardops.tenants.access import Visible, admins_of, require_role, tenant_or_404, visible
from guardops.tenants.choices import Role, Scope
from guardops.tenants.keys import create_key
from guardops.tenants.models import ApiKey, Tenant, User
from runs.reports.pages import PageRequest
from runs.reports.panels.first_steps import first_steps
from runs.reports.signs import first_sign, parse_since

KEY_NAME = "connected by {}"


# never_cache says no-store: the answer that shows a key is kept by no browser and no proxy.
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def connect(request: PageRequest) -> HttpResponse:
    now, seen = timezone.now(), visible(request.user)
    if request.method == "POST":
        tenant = tenant_or_404(request.user, request.POST.get("tenant", ""))
        require_role(request.user, tenant, Role.ADMIN)
        key, plain = _new_key(tenant, request.user, now)
        return render(request, "runs/connect.html", _context(request, seen, tenant, now, key, plain))
    if not seen.tenants:
        return render(request, "runs/no_tenant.html")
    return render(request, "runs/connect.html", _context(request, seen, _chosen(request, seen), now))


@never_cache
@require_safe
@vary_on_headers("HX-Request")
def connect_status(request: PageRequest) -> HttpResponse:
    now, seen = timezone.now(), visible(request.user)
    if not seen.tenants:
        raise Http404("No such tenant.")
    tenant = _chosen(request, seen)
    since = parse_since(request.GET.get("since", ""), now)
    context = {"tenant": tenant, "since": since, "sign": first_sign(tenant.pk, since, now)}
    part = wants_fragment(request)
    return render(request, "runs/_connect_status.html" if part else "runs/connect_status.html", context)


def _new_key(tenant: Tenant, user: User, now: datetime) -> tuple[ApiKey, str]:
    """Make a key for a guard of ``tenant``: it may send events and read policies."""
    return create_key(
        organisation=tenant.organisation,
        tenants=[tenant],
        name=KEY_NAME.format(user.get_username())[:128],
        scopes=[Scope.EVENTS_WRITE, Scope.BUNDLE_READ],
        actor=user,
        now=now,
    )


def _chosen(request: PageRequest, seen: Visible) -> Tenant:
    slug = request.GET.get("tenant", "")
    return seen.by_slug(slug) if slug else seen.tenants[0]


def _context(
    request: PageRequest,
    seen: Visible,
    tenant: Tenant,
    now: datetime,
    key: ApiKey | None = None,
    plain: str = "",
) -> dict[str, Any]:
    since = parse_since("", now) if key is None else now
    first = first_steps(request.user, seen, tenant.slug, gate_url=settings.GATE_URL, now=now, plain=plain)
    return {
        "seen": seen,
        "tenant": tenant,
        "first": first,
        "fresh": key,
        "admins": [] if first.may_create else admins_of(tenant),
        "since": since,
        "sign": first_sign(tenant.pk, since, now),
    }
