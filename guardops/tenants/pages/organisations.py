"""Pages of organisations and their tenants. What somebody may do is asked of ``access`` alone."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from guardops.shown import visible_text
from guardops.tenants import access
from guardops.tenants.errors import EditedMeanwhile
from guardops.tenants.forms.organisations import OrganisationForm, TenantForm, TenantNameForm
from guardops.tenants.models import Organisation
from guardops.tenants.organisations import create_tenant, rename_tenant, update_organisation

from .requests import AuthenticatedRequest


@never_cache
@require_safe
def organisations(request: AuthenticatedRequest) -> HttpResponse:
    listed = access.organisations_to_manage(request.user)
    return render(
        request,
        "tenants/organisations.html",
        {"organisations": listed, "whole": set(access.administered_organisations(request.user))},
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def organisation(request: AuthenticatedRequest, slug: str) -> HttpResponse:
    found = access.require_organisation_admin(request.user, slug)
    form = _form(request, found)
    if not form.is_valid():
        return render(request, "tenants/organisation.html", {"form": form, "organisation": found})
    try:
        update_organisation(found, **form.cleaned_data, actor=request.user)
    except EditedMeanwhile:
        return _overtaken(request, found, form)
    except ValidationError as error:
        form.add_error(None, error)
        return render(request, "tenants/organisation.html", {"form": form, "organisation": found})
    messages.success(request, "Saved.")
    return redirect("tenants:organisation", found.slug)


def _form(
    request: AuthenticatedRequest, found: Organisation, *, version: int | None = None
) -> OrganisationForm:
    data = None
    if request.method == "POST":
        data = request.POST.copy()
        if version is not None:
            data["version"] = str(version)
    return OrganisationForm(data, organisation=found, longest=settings.RETENTION_DAYS)


def _overtaken(request: AuthenticatedRequest, found: Organisation, form: OrganisationForm) -> HttpResponse:
    """Show what somebody else saved meanwhile beside what was typed, which the form keeps."""
    found.refresh_from_db()
    differences = list(form.differences(found))
    if not differences:
        messages.success(request, "Saved: somebody else has just set the same.")
        return redirect("tenants:organisation", found.slug)
    # Sent again, it replaces what is shown as in force, and nothing that has not been seen.
    again = _form(request, found, version=found.version)
    again.is_valid()
    last = found.events.order_by("-pgh_id").first()  # type: ignore[attr-defined]
    context = {"form": again, "organisation": found, "differences": differences, "last": last}
    return render(request, "tenants/organisation.html", context, status=409)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def create(request: AuthenticatedRequest, slug: str) -> HttpResponse:
    found = access.require_organisation_admin(request.user, slug)
    form = TenantForm(request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            made = create_tenant(organisation=found, **form.cleaned_data, actor=request.user)
        except ValidationError as error:
            form.add_error(None, error)
        else:
            messages.success(
                request, f"The tenant {visible_text(made.name)} is made; give it an API key next."
            )
            return redirect("tenants:organisations")
    return render(request, "tenants/tenant_create.html", {"form": form, "organisation": found})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rename(request: AuthenticatedRequest, slug: str) -> HttpResponse:
    tenant = access.require_tenant_admin(request.user, slug)
    form = TenantNameForm(request.POST if request.method == "POST" else None, initial={"name": tenant.name})
    if not form.is_valid():
        return render(request, "tenants/tenant_rename.html", {"form": form, "tenant": tenant})
    rename_tenant(tenant, form.cleaned_data["name"], actor=request.user)
    messages.success(request, "Renamed.")
    return redirect("tenants:organisations")
