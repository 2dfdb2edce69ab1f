"""The page of one incident, and what people do there: each a form of its own, so it works without scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from guardops.tenants.pages.requests import AuthenticatedRequest
from runs.alerts import incidents as verbs
from runs.alerts.access import incident_or_404, incident_to_act_on, may_act, people_for
from runs.alerts.chart import draw
from runs.alerts.evidence import Evidence
from runs.alerts.forms import ActForm, AssignForm
from runs.alerts.incidents import IncidentChanged, InvalidIncident
from runs.alerts.links import link_of, silence_of
from runs.alerts.rules import SPECS
from runs.alerts.telling import is_silenced
from runs.choices import RuleKind
from runs.models import Incident

if TYPE_CHECKING:
    from runs.alerts.incidents import Change


@require_safe
def incident(request: AuthenticatedRequest, incident_id: UUID) -> HttpResponse:
    return _page(request, incident_or_404(request.user, incident_id))


@require_POST
def incident_acknowledge(request: AuthenticatedRequest, incident_id: UUID) -> HttpResponse:
    return _act(request, incident_id, verbs.acknowledge, "You look after it now.")


@require_POST
def incident_resolve(request: AuthenticatedRequest, incident_id: UUID) -> HttpResponse:
    return _act(request, incident_id, verbs.resolve, "It is marked as over.")


@require_POST
def incident_reopen(request: AuthenticatedRequest, incident_id: UUID) -> HttpResponse:
    return _act(request, incident_id, verbs.reopen, "It is open again.")


@require_POST
def incident_assign(request: AuthenticatedRequest, incident_id: UUID) -> HttpResponse:
    found = incident_to_act_on(request.user, incident_id)
    form = AssignForm(request.POST, people=people_for(found))
    if not form.is_valid():
        return _page(request, found, assign=form, status=400)
    asked, person = form.cleaned_data, form.person
    try:
        verbs.assign(
            found,
            person,
            actor=request.user,
            now=timezone.now(),
            version=asked["version"],
            note=asked["note"],
        )
    except IncidentChanged as told:
        return _page(request, told.current, change=told.change, note=asked["note"], status=409)
    messages.success(request, f"Given to {person.get_username()}." if person else "Given to nobody.")
    return redirect("runs:incident", incident_id)


@require_POST
def incident_note(request: AuthenticatedRequest, incident_id: UUID) -> HttpResponse:
    found = incident_to_act_on(request.user, incident_id)
    form = ActForm({"version": found.version, "note": request.POST.get("note", "")})
    if not form.is_valid():
        return _page(request, found, noted=form, status=400)
    try:
        verbs.add_note(found, form.cleaned_data["note"], actor=request.user, now=timezone.now())
    except InvalidIncident as error:
        form.add_error("note", error.message)
        return _page(request, found, noted=form, status=400)
    messages.success(request, "The note is kept.")
    return redirect("runs:incident", incident_id)


def _act(
    request: AuthenticatedRequest, incident_id: UUID, verb: Callable[..., Incident], done: str
) -> HttpResponse:
    """Carry out a verb on the version that the form was made from; who comes late is told what happened."""
    found = incident_to_act_on(request.user, incident_id)
    form = ActForm(request.POST)
    if not form.is_valid():
        messages.error(request, "Nothing was done: the form was not whole. Please try again.")
        return redirect("runs:incident", incident_id)
    said = form.cleaned_data
    more = {} if verb is verbs.acknowledge else {"note": said["note"]}
    try:
        verb(found, actor=request.user, now=timezone.now(), version=said["version"], **more)
    except IncidentChanged as told:
        return _page(request, told.current, change=told.change, note=said["note"], status=409)
    except InvalidIncident as error:
        messages.warning(request, error.message)
    else:
        messages.success(request, done)
    back = request.POST.get("back") == "list"
    return redirect("runs:incidents") if back else redirect("runs:incident", incident_id)


def _page(
    request: AuthenticatedRequest,
    found: Incident,
    *,
    change: Change | None = None,
    note: str = "",
    assign: AssignForm | None = None,
    noted: ActForm | None = None,
    status: int = 200,
) -> HttpResponse:
    """Show the incident; with a ``change``, what its author came too late for, and the note they typed."""
    found = incident_or_404(request.user, found.pk)
    acts, now, evidence = may_act(request.user, found), timezone.now(), Evidence.read(found.evidence)
    given = {"version": found.version, "to": found.assigned_to_id or ""}
    context = {
        "incident": found,
        "spec": SPECS[RuleKind(found.rule)],
        "evidence": evidence,
        "drawn": draw(evidence, found),
        "link": link_of(found),
        "silence_href": silence_of(found),
        "silenced": found.is_open and is_silenced(found, now),
        "steps": found.steps.select_related("by", "to"),
        "acts": acts,
        "assign": (assign or AssignForm(initial=given, people=people_for(found))) if acts else None,
        "noted": noted or ActForm(initial={"version": found.version, "note": note}),
        "change": change,
        "as_of": now,
    }
    return render(request, "runs/alerts/incident.html", context, status=status)
