"""Signing secrets: what decisions and envelopes of a tenant are signed with, and how it is replaced."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from guardops.tenants import access
from guardops.tenants.pages.requests import AuthenticatedRequest
from policies.models import SigningSecret
from policies.publish.upkeep import OVERLAP, rotate_secret


@require_safe
def signing(request: AuthenticatedRequest) -> HttpResponse:
    now = timezone.now()
    tenants = access.require_administered_tenants(request.user)
    living = SigningSecret.objects.filter(Q(not_after=None) | Q(not_after__gt=now), tenant__in=tenants)
    secrets: dict[int, list[SigningSecret]] = defaultdict(list)
    for secret in living.defer("secret").order_by("-created_at", "-pk"):
        secrets[secret.tenant_id].append(secret)
    rows = [(tenant, secrets[tenant.pk]) for tenant in tenants]
    return render(request, "policies/signing.html", {"rows": rows, "as_of": now})


@require_http_methods(["GET", "HEAD", "POST"])
def rotate(request: AuthenticatedRequest, slug: str) -> HttpResponse:
    tenant = access.require_tenant_admin(request.user, slug)
    if request.method != "POST":
        return render(request, "policies/signing_rotate.html", {"tenant": tenant})
    overlap = timedelta(0) if request.POST.get("leaked") else OVERLAP
    change = rotate_secret(tenant, actor=request.user, now=timezone.now(), overlap=overlap)
    return redirect("policies:change", change.pk)
