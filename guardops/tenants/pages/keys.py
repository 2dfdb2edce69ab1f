"""Pages of API keys. What somebody may do is asked of ``access`` alone."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from guardops.tenants import access
from guardops.tenants.errors import InvalidKey
from guardops.tenants.forms.keys import KeyForm
from guardops.tenants.keys import revoke_key

from .requests import AuthenticatedRequest

KEYS_PER_PAGE = 100


@never_cache
@require_safe
def keys(request: AuthenticatedRequest) -> HttpResponse:
    listed = access.keys_to_manage(request.user, timezone.now())
    page = Paginator(listed, KEYS_PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "tenants/keys.html", {"page": page})


# never_cache says no-store: the answer that shows a key is kept by no browser and no proxy.
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: AuthenticatedRequest) -> HttpResponse:
    tenants = access.require_administered_tenants(request.user)
    form = KeyForm(
        request.POST if request.method == "POST" else None,
        tenants=tenants,
        initial={"tenants": request.GET.getlist("tenant")},
    )
    if not form.is_valid():
        return render(request, "tenants/key_create.html", {"form": form})
    key, plain = form.save(actor=request.user, now=timezone.now())
    return render(
        request, "tenants/key_created.html", {"key": key, "plain": plain, "gate_url": settings.GATE_URL}
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: AuthenticatedRequest, key_id: int) -> HttpResponse:
    key = access.require_key_admin(request.user, key_id)
    if request.method != "POST":
        return render(request, "tenants/key_revoke.html", {"key": key})
    try:
        revoke_key(key, actor=request.user, now=timezone.now())
    except InvalidKey as error:
        messages.warning(request, error.message)
    else:
        messages.success(request, f"The key {key} is revoked; it stops working within five seconds.")
    return redirect("tenants:keys")
