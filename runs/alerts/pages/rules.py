"""The rules of a place: how each stands there, and a form that sets one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_http_methods, require_safe

from guardops.shown import from_visible
from guardops.tenants import access
from guardops.tenants.choices import Role
from guardops.tenants.errors import EditedMeanwhile
from guardops.tenants.pages.requests import AuthenticatedRequest
from runs.alerts.access import Place, place_to_set, places_seen
from runs.alerts.forms import RuleForm
from runs.alerts.rules import SPECS, Setting, Spec, setting_of
from runs.alerts.setting import InvalidRule, set_rule, unset_rule
from runs.alerts.standing import is_judged, last_judged
from runs.choices import RuleKind, Severity
from runs.models import Evaluation, Incident, Rule

MAX_JOB_TYPE = 128


@dataclass(frozen=True, slots=True)
class Line:
    """A rule, or what one job type has instead; ``row`` is None where it stands as it comes."""

    spec: Spec
    setting: Setting
    row: Rule | None
    job_type: str
    evaluation: Evaluation | None
    incidents: int

    @property
    def limits(self) -> list[str]:
        """The limits in words, in the order of the form."""
        words = [each.say(self.setting[each.name]) for each in self.spec.parameters]
        return [word[:1].lower() + word[1:] for word in words]


@require_safe
def rules(request: AuthenticatedRequest) -> HttpResponse:
    seen, now = access.visible(request.user), timezone.now()
    places = places_seen(seen)
    slug = request.GET.get("tenant", "") or next(iter(places), "")
    if slug not in places:
        if slug:
            raise Http404("No such place.")
        return render(request, "runs/alerts/rules.html", {"lines": ()})
    context = {
        "places": [(key, place.slug if place else "the installation") for key, place in places.items()],
        "slug": slug,
        "place": places[slug],
        "lines": list(lines_of(places[slug])),
        "sets": _sets(request, places[slug]),
        "judged": is_judged(now),
        "last": last_judged(),
        "as_of": now,
    }
    return render(request, "runs/alerts/rules.html", context)


def _sets(request: AuthenticatedRequest, place: Place) -> bool:
    if place is None:
        return request.user.is_operator
    return access.role_in(request.user, place) == Role.ADMIN


def lines_of(place: Place) -> Iterator[Line]:
    """Yield the rules that hold in a place, each followed by the job types that have their own."""
    rows = {(row.rule, row.job_type): row for row in Rule.objects.filter(tenant=place)}
    evaluations = {each.rule: each for each in Evaluation.objects.all()}
    tenant_id = place.pk if place else None
    standing = Counter(Incident.objects.for_tenant(tenant_id).unresolved().values_list("rule", flat=True))
    for spec in SPECS.values():
        if not spec.stands_in(tenant_id):
            continue
        kind, whole = str(spec.kind), rows.get((spec.kind, ""))
        yield Line(spec, setting_of(spec, whole), whole, "", evaluations.get(kind), standing[kind])
        for (rule, job_type), row in sorted(rows.items()):
            if rule == spec.kind and job_type:
                yield Line(spec, setting_of(spec, row), row, job_type, None, 0)


@dataclass(frozen=True, slots=True)
class Edited:
    """The rule that is edited: where, for which job type, and how it stands there."""

    spec: Spec
    slug: str
    place: Place
    job_type: str
    row: Rule | None

    @property
    def setting(self) -> Setting:
        """How it stands: a job type without limits of its own has those of the place."""
        rows = Rule.objects.filter(rule=self.spec.kind, tenant=self.place, job_type="")
        return setting_of(self.spec, self.row or rows.first())


@require_http_methods(["GET", "HEAD", "POST"])
def rule_edit(request: AuthenticatedRequest, kind: str) -> HttpResponse:
    edited = _edited(request, kind)
    form = RuleForm(
        request.POST if request.method == "POST" else None,
        spec=edited.spec,
        setting=edited.setting,
        version=edited.row.version if edited.row else 0,
    )
    status = 200
    try:
        done = _unset(request, edited) if "unset" in request.POST else _save(request, form, edited)
        if done:
            return redirect(f"{reverse('runs:rules')}?{urlencode({'tenant': edited.slug})}")
    except EditedMeanwhile as error:
        form = _anew(edited)
        form.add_error(None, f"{error.message} Nothing was saved; this is how it stands now.")
        status = 409
    return render(request, "runs/alerts/rule.html", {"form": form, "edited": edited}, status=status)


def _edited(request: AuthenticatedRequest, kind: str) -> Edited:
    """Return what the address or the form names; raises Http404, and PermissionDenied below admin."""
    asked = request.POST if request.method == "POST" else request.GET
    slug, job_type = asked.get("tenant", ""), from_visible(asked.get("job", ""))
    if kind not in RuleKind.values or len(job_type) > MAX_JOB_TYPE or "\0" in slug + job_type:
        raise Http404("No such rule.")
    spec, place = SPECS[RuleKind(kind)], place_to_set(request.user, slug)
    if not spec.stands_in(place.pk if place else None) or (job_type and not spec.per_job):
        raise Http404("This rule is not set there.")
    rows = Rule.objects.select_related("by").filter(rule=kind, tenant=place, job_type=job_type)
    return Edited(spec, slug, place, job_type, rows.first())


def _save(request: AuthenticatedRequest, form: RuleForm, edited: Edited) -> bool:
    """Set the rule; False, with the errors in the form, where it can't be set so."""
    if not form.is_valid():
        return False
    asked = form.cleaned_data
    try:
        set_rule(
            edited.spec,
            edited.place,
            edited.job_type,
            enabled=asked["enabled"],
            severity=Severity(asked["severity"]),
            values=form.values,
            actor=request.user,
            now=timezone.now(),
            version=asked["version"],
        )
    except InvalidRule as error:
        form.add_error(None, error.message)
        return False
    messages.success(request, f"{edited.spec.kind.label}: saved. It counts from the next minute on.")
    return True


def _unset(request: AuthenticatedRequest, edited: Edited) -> bool:
    """Let what the rule came with hold again; raises EditedMeanwhile where it was set anew or not at all."""
    version = request.POST.get("version", "")
    if edited.row is None or str(edited.row.version) != version:
        raise EditedMeanwhile("Somebody else has changed this rule since you opened it.")
    unset_rule(edited.row, actor=request.user, version=edited.row.version)
    messages.success(request, f"{edited.spec.kind.label}: what it came with holds again.")
    return True


def _anew(edited: Edited) -> RuleForm:
    """Return a form of how the rule stands now, bound so that it can say what went wrong."""
    row = Rule.objects.filter(rule=edited.spec.kind, tenant=edited.place, job_type=edited.job_type).first()
    setting, version = setting_of(edited.spec, row), row.version if row else 0
    data = {name: f"{value:.10g}" for name, value in setting.values.items()}
    data |= {"severity": setting.severity, "version": str(version)}
    data |= {"enabled": "on"} if setting.enabled else {}
    form = RuleForm(data, spec=edited.spec, setting=setting, version=version)
    form.is_valid()
    return form
