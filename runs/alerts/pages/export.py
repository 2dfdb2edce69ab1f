"""Incidents, rules and silences as files: exactly what their pages list, narrowed in the same way."""

from __future__ import annotations

import json

from django.http import Http404, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from guardops.addresses import first_page, tidy
from guardops.export import Cell, file_name, file_response
from guardops.tenants import access
from guardops.tenants.pages.requests import AuthenticatedRequest
from runs.alerts.access import places_seen
from runs.alerts.forms import IncidentFilterForm
from runs.models import Incident, Silence

from .rules import Line, lines_of

INCIDENTS = [
    *("id", "tenant", "rule", "subject", "job_type", "release", "title", "severity", "state"),
    *("opened_at", "last_at", "acknowledged_at", "acknowledged_by", "assigned_to", "resolved_at"),
    *("resolved_how", "reopened"),
]
RULES = ["tenant", "rule", "job_type", "enabled", "severity", "parameters", "incidents"]
SILENCES = [
    *("tenant", "rule", "subject", "reason", "created_at", "created_by", "until", "ended_at", "ended_by"),
]


@require_GET
def incidents_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    params, now, seen = first_page(tidy(request.GET)), timezone.now(), access.visible(request.user)
    asked = IncidentFilterForm(params, places=places_seen(seen))
    if not asked.is_valid():
        context = {"form": asked, "query": params.urlencode()}
        return render(request, "runs/export_invalid.html", context, status=400)
    found = asked.narrow(Incident.objects.seen_by(seen), request.user).defer("evidence", "query")
    listed = found.select_related("tenant", "assigned_to", "acknowledged_by").order_by("-opened_at", "-id")
    rows = (
        [
            *(one.pk, one.tenant.slug if one.tenant else None, one.rule, one.subject, one.job_type),
            *(one.release, one.title, one.severity, one.state, one.opened_at, one.last_at),
            one.acknowledged_at,
            one.acknowledged_by.get_username() if one.acknowledged_by else None,
            one.assigned_to.get_username() if one.assigned_to else None,
            *(one.resolved_at, one.resolved_how, one.reopened),
        ]
        for one in listed.iterator(chunk_size=1_000)
    )
    return file_response(form, file_name("incidents", now), INCIDENTS, rows)


@require_GET
def rules_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    places = places_seen(access.visible(request.user))
    slug = request.GET.get("tenant", "") or next(iter(places), "")
    if slug and slug not in places:
        raise Http404("No such place.")
    lines = lines_of(places[slug]) if slug else ()
    rows = (_rule(slug, line) for line in lines)
    return file_response(form, file_name("rules", timezone.now()), RULES, rows)


def _rule(slug: str, line: Line) -> list[Cell]:
    setting = line.setting
    return [
        *(slug, str(line.spec.kind), line.job_type, setting.enabled, str(setting.severity)),
        *(json.dumps(dict(setting.values)), line.incidents),
    ]


@require_GET
def silences_export(request: AuthenticatedRequest, form: str = "csv") -> HttpResponseBase:
    found = Silence.objects.seen_by(access.visible(request.user)).order_by("-created_at", "-id")
    listed = found.select_related("tenant", "created_by", "ended_by")
    rows = (
        [
            *(one.tenant.slug if one.tenant else None, one.rule, one.subject, one.reason, one.created_at),
            one.created_by.get_username() if one.created_by else None,
            *(one.until, one.ended_at),
            one.ended_by.get_username() if one.ended_by else None,
        ]
        for one in listed.iterator(chunk_size=1_000)
    )
    return file_response(form, file_name("silences", timezone.now()), SILENCES, rows)
