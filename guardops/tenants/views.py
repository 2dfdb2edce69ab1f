"""Pages of people and keys. What somebody may do is asked of ``access`` alone."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from . import access
from .actors import acting
from .errors import InvalidKey
from .forms import KeyForm
from .keys import revoke_key
from .models import User

KEYS_PER_PAGE = 100


class AuthenticatedRequest(HttpRequest):
    """What LoginRequiredMiddleware lets through."""

    user: User


class Login(LoginView):
    """Opens a session; afterwards goes to ``next`` where that is an address of ours."""

    template_name = "tenants/login.html"
    redirect_authenticated_user = True

    def get_success_url(self) -> str:
        # Django takes a way back to this page itself for a mistake of ours and fails; it is the visitor's.
        target = super().get_success_url()
        return self.get_default_redirect_url() if target == self.request.path else target

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        # The audit trail shows a login as a change of the person by the person.
        with acting(form.get_user()):
            return super().form_valid(form)


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
