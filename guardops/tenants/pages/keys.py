"""Pages of API keys. What somebody may do is asked of ``access`` alone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_safe

from guardops.export import Cell, file_name, file_response
from guardops.tenants import access
from guardops.tenants.errors import InvalidKey
from guardops.tenants.forms.keys import KeyFilterForm, KeyForm, RotateForm
from guardops.tenants.keys import revoke_key

from .requests import AuthenticatedRequest

if TYPE_CHECKING:
    from guardops.tenants.models import ApiKey
    from guardops.tenants.querysets import ApiKeyQuerySet

KEYS_PER_PAGE = 100
COLUMNS = [
    *("name", "key", "state", "tenants", "further_tenants", "scopes"),
    *("created_at", "created_by", "expires_at", "revoked_at", "last_used_at", "takes_over_from"),
]


@never_cache
@require_safe
def keys(request: AuthenticatedRequest) -> HttpResponse:
    form, listed = _listed(request, timezone.now())
    page = Paginator(listed, KEYS_PER_PAGE).get_page(request.GET.get("page"))
    return render(request, "tenants/keys.html", {"page": page, "form": form})


@never_cache
@require_GET
def keys_file(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    asked, listed = _listed(request, timezone.now())
    if not asked.is_valid():
        return render(request, "tenants/keys.html", {"page": [], "form": asked}, status=400)
    rows = _rows(listed.select_related("created_by", "predecessor"))
    return file_response(form, file_name("keys", timezone.now()), COLUMNS, rows)


def _listed(request: AuthenticatedRequest, now: datetime) -> tuple[KeyFilterForm, ApiKeyQuerySet]:
    keys = access.keys_to_manage(request.user, now)
    form = KeyFilterForm(request.GET, tenants=access.administered_tenants(request.user))
    return form, form.narrow(keys)


def _rows(keys: ApiKeyQuerySet) -> Iterator[list[Cell]]:
    key: ApiKey
    for key in keys.iterator(chunk_size=1000):
        tenants = [tenant.slug for tenant in key.shown]  # type: ignore[attr-defined]
        yield [
            *(key.name, str(key), key.state, " ".join(tenants)),  # type: ignore[attr-defined]
            key.covered - len(tenants),  # type: ignore[attr-defined]
            " ".join(key.scopes),
            key.created_at,
            key.created_by.get_username() if key.created_by else None,
            *(key.expires_at, key.revoked_at, key.last_used_at),
            str(key.predecessor) if key.predecessor else None,
        ]


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
    return _shown_once(request, key, plain)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rotate(request: AuthenticatedRequest, key_id: int) -> HttpResponse:
    key = access.require_key_admin(request.user, key_id)
    form = RotateForm(request.POST if request.method == "POST" else None, key=key)
    if not form.is_valid():
        return render(request, "tenants/key_rotate.html", {"key": key, "form": form})
    try:
        successor, plain = form.save(actor=request.user, now=timezone.now())
    except InvalidKey as error:
        messages.warning(request, error.message)
        return redirect("tenants:keys")
    return _shown_once(request, successor, plain)


def _shown_once(request: AuthenticatedRequest, key: ApiKey, plain: str) -> HttpResponse:
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
