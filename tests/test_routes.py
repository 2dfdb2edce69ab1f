"""Every route of the project × everybody: what strangers, members and operators get of one tenant's things.

To add a route, give it one line in ROUTES: ``Page`` where its address names nothing, ``Thing`` where it names
something of a tenant, with a function that makes the thing, calls it confidential-something and returns the
route's arguments. ``see`` is who may GET it, ``act`` who may POST ``form`` to it; leave out what it refuses.

Then it is walked: who is in ``see`` or ``act`` gets an answer, and changes something where they post; anybody
else of the tenant gets 403; a stranger gets, to the byte, what they would get of a thing that doesn't exist,
reads the word "confidential" nowhere and changes no row. A route without a line fails the first test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse
from django.utils import timezone

from guardops.guard.decisions import DecisionAction
from guardops.guard.events import Outcome, Source, SourceKind
from guardops.tenants.access import reviewers_of
from guardops.tenants.actors import SYSTEM
from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from guardops.tenants.saved_views import save_view
from policies.choices import StopScope
from policies.models import BlockedSource, Change, JobPolicy
from policies.publish.policies import Place, save_policy
from policies.publish.sources import Reach, Wanted, block_sources, remove_sources
from policies.publish.stops import issue_stop
from policies.pull.fleet import Sign, write_signs
from runs.alerts.incidents import Finding, open_incident, resolve_incident
from runs.alerts.silences import silence
from runs.checkpoints.choice import Choice
from runs.checkpoints.decide import decide
from runs.choices import Cut, Grain, RuleKind, Severity
from runs.models import Checkpoint, Decision, Incident, Notification, Rollup
from runs.notify.addresses import Address, MailAddress, WebhookAddress, new_signing_secret
from runs.notify.channels import Place as ChannelPlace
from runs.notify.channels import create_channel
from runs.reports.windows import floor_quarter
from tests.factories import (
    make_checkpoint,
    make_invitation,
    make_key,
    make_member,
    make_operator,
    make_run_event,
    make_run_id,
    make_tenant,
    make_user,
    store_runs,
)
from tests.runs.live_rows import insert_live

NOW = datetime.now(UTC)  # the pages show the last day, and today has a partition
ENDED_AT = NOW - timedelta(minutes=1)
RUN_ID = make_run_id(ENDED_AT)
A_LIST = "runs"

STRANGERS = frozenset({"nobody", "foreign_admin"})
ORGANISATION_ADMINS = frozenset({"organisation_admin"})
ADMINS = ORGANISATION_ADMINS | {"admin"}
REVIEWERS = ADMINS | {"reviewer"}
OPERATORS = frozenset({"operator"})
VIEWERS = REVIEWERS | {"viewer"} | OPERATORS
EVERYBODY = VIEWERS | STRANGERS
ADMINS_SOMEWHERE = ADMINS | {"foreign_admin"}

Arguments = Callable[[Tenant], Sequence[Any]]
Form = Callable[[Tenant], Mapping[str, Any]]


@dataclass(frozen=True)
class Page:
    """A route that names nothing: it shows what its reader may see; who may do neither gets 403."""

    see: frozenset[str] | None = None
    act: frozenset[str] | None = None
    form: Form = field(default=lambda tenant: {})
    shows: bool = True
    """Whether a member finds something called confidential there."""
    changes: bool = True
    """Whether who may post ``form`` changes something by it."""
    arguments: Arguments = field(default=lambda tenant: [])
    own: bool = False
    """Whether what it changes is whoever's who posts, so that a stranger may change something."""
    hidden_from: frozenset[str] = frozenset()
    """Who must not learn that the thing exists, and gets 404 instead of 403."""


@dataclass(frozen=True)
class Thing(Page):
    """A route whose arguments name something of a tenant, which strangers must not learn of."""

    hidden_from: frozenset[str] = STRANGERS


def a_run(tenant: Tenant) -> list[Any]:
    return [RUN_ID]


def a_stop(tenant: Tenant) -> list[Any]:
    run_id = make_run_id(ENDED_AT)
    stopped = make_run_event(
        run_id=run_id,
        ended_at=ENDED_AT,
        outcome=Outcome.HALTED,
        halt_reason="no_progress",
        job_type="confidential-job",
    )
    store_runs(tenant, stopped, received_at=NOW)
    return [run_id]


def a_live_run(tenant: Tenant) -> list[Any]:
    insert_live(tenant, agent="confidential-agent")
    return []


def stop_review(tenant: Tenant) -> dict[str, Any]:
    return {"verdict": "false_stop", "detector": "no_progress", "note": "", "seen": ""}


def a_key(tenant: Tenant) -> list[Any]:
    return [make_key(tenant, name="confidential-key")[0].pk]


def a_list(tenant: Tenant) -> list[Any]:
    return [A_LIST]


def a_view(tenant: Tenant) -> list[Any]:
    view = save_view(owner=make_member(tenant), page=A_LIST, name="confidential-view", query="")
    return [A_LIST, view.pk]


def new_view(tenant: Tenant) -> dict[str, Any]:
    return {"name": "new-view", "query": f"tenant={tenant.slug}"}


def new_key(tenant: Tenant) -> dict[str, Any]:
    return {"name": "new-key", "tenants": tenant.slug, "scopes": "events:write"}


def a_role(tenant: Tenant) -> list[Any]:
    member = make_member(tenant, username=f"confidential-{uuid4().hex[:8]}")
    return [member.memberships.get().pk]


def an_invitation(tenant: Tenant) -> list[Any]:
    return [make_invitation(tenant, invitee="confidential-guest")[0].pk]


def new_invitation(tenant: Tenant) -> dict[str, Any]:
    return {"invitee": "new-guest", "place": f"tenant:{tenant.slug}", "role": "viewer"}


def block(tenant: Tenant, name: str) -> tuple[BlockedSource, Change]:
    reach = Reach(tenant.organisation, tenant)
    [outcome], change = block_sources(reach, [Wanted(name)], actor=SYSTEM, now=NOW)
    assert outcome.source is not None
    assert change is not None
    return outcome.source, change


def a_block(tenant: Tenant) -> list[Any]:
    return [block(tenant, f"confidential-{uuid4().hex[:8]}.example")[0].pk]


def blocked_names(tenant: Tenant) -> list[Any]:
    a_block(tenant)
    return []


def blocked_ids(tenant: Tenant) -> dict[str, Any]:
    return {"source": list(BlockedSource.objects.filter(removed_at=None).values_list("pk", flat=True))}


def a_removed_block(tenant: Tenant) -> list[Any]:
    source, _ = block(tenant, "confidential-removed.example")
    remove_sources(Reach(tenant.organisation, tenant), [source.pk], actor=SYSTEM, now=NOW)
    return [source.pk]


def a_block_change(tenant: Tenant) -> list[Any]:
    return [block(tenant, "confidential-change.example")[1].pk]


def new_block(tenant: Tenant) -> dict[str, Any]:
    kind = {"kind": "domain", "match": "registrable", "action": "block"}
    return {"place": f"tenant:{tenant.slug}", "names": "new.example", "step": "confirm", **kind}


def a_proposal(tenant: Tenant) -> list[Any]:
    source = Source(kind=SourceKind.DOMAIN, name="confidential-proposal.example", proposed=True)
    run = make_run_event(
        run_id=make_run_id(ENDED_AT), ended_at=ENDED_AT, halt_reason="domain_cap", sources=[source]
    )
    store_runs(tenant, run, received_at=NOW)
    return []


def a_release(tenant: Tenant) -> list[Any]:
    """Let a new release run after an old one, both counted."""
    hours = {"r1": 9, "confidential-release": 2}
    now = timezone.now()
    for release, ago in hours.items():
        for cut, name in ((Cut.JOB, ""), (Cut.JOB_RELEASE, release)):
            Rollup.objects.get_or_create(
                tenant_id=tenant.pk,
                cut=cut,
                grain=Grain.QUARTER,
                at=floor_quarter(now - timedelta(hours=ago)),
                job_type="research",
                release=name,
                defaults={"runs": 1, "reasons": [], "reasons_runs": []},
            )
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO fold_state (id, last, system_identifier, hours_to, days_to, watched_mark,"
            " watched_at) VALUES (1, 0, 0, %s, %s, 0, now()) ON CONFLICT DO NOTHING",
            [now - timedelta(days=2)] * 2,
        )
    return []


def a_used_source(tenant: Tenant) -> list[Any]:
    a_proposal(tenant)
    return []


def a_source(tenant: Tenant) -> list[Any]:
    a_proposal(tenant)
    return ["domain", "confidential-proposal.example"]


def new_source_block(tenant: Tenant) -> dict[str, Any]:
    return {"kind": "domain", "name": "new-source.example", "places": [f"tenant:{tenant.slug}"]}


def a_stop_order(tenant: Tenant) -> list[Any]:
    name = f"confidential-{uuid4().hex[:8]}"
    issued = issue_stop(tenant, StopScope.JOB_TYPE, name, reason="x", actor=SYSTEM, now=NOW)
    return [issued.stop.pk]


def stops_in_force(tenant: Tenant) -> list[Any]:
    a_stop_order(tenant)
    return []


def new_stop(tenant: Tenant) -> dict[str, Any]:
    return {"tenant": tenant.slug, "scope": "tenant", "reason": "costs", "sure": "1"}


def a_change(tenant: Tenant) -> list[Any]:
    issued = issue_stop(tenant, StopScope.TASK, "confidential-task", reason="x", actor=SYSTEM, now=NOW)
    assert issued.change is not None
    return [issued.change.pk]


def a_guard(tenant: Tenant) -> list[Any]:
    sign = Sign(NOW, "", f"1:{'0' * 16};confidential_code", "")
    write_signs({(tenant.pk, str(uuid4())): sign})
    return []


def an_organisation(tenant: Tenant) -> list[Any]:
    return [tenant.organisation.slug]


def a_policy(tenant: Tenant) -> list[Any]:
    """Leave the tenant's defaults with a version."""
    place = Place(tenant.organisation, tenant, "")
    document = {"tools": {"confidential-tool": {"forbidden": True}}}
    seen = JobPolicy.objects.filter(tenant=tenant, job_type="").values_list("version", flat=True).first() or 0
    save_policy(place, document, seen=seen, actor=SYSTEM, now=NOW)
    return []


def new_policy(tenant: Tenant) -> dict[str, Any]:
    sent = {"tenant": tenant.slug, "job": "new-job", "seen": 0, "step": "save", "max_steps": 12}
    return sent | {"tools-TOTAL_FORMS": 0, "tools-INITIAL_FORMS": 0}


def old_policy(tenant: Tenant) -> dict[str, Any]:
    return {"tenant": tenant.slug, "to": 0, "seen": 1}


def new_settings(tenant: Tenant) -> dict[str, Any]:
    return {"version": 1, "name": "New name", "time_zone": "Europe/Berlin"}


def a_checkpoint(tenant: Tenant) -> list[Any]:
    opened = make_checkpoint(tenant, job_type="confidential-job", opened_at=ENDED_AT, received_at=NOW)
    return [opened.checkpoint_id]


def a_decided_checkpoint(tenant: Tenant) -> list[Any]:
    opened = make_checkpoint(tenant, job_type="confidential-job", opened_at=ENDED_AT, received_at=NOW)
    choice = Choice(DecisionAction.FORCE_ANSWER)
    made = decide(opened, choice, actor=make_member(tenant, Role.REVIEWER), now=NOW, version=1)
    # The walk may take longer than the ten seconds in which it can be taken back.
    Decision.objects.filter(pk=made.pk).update(deliver_at=datetime.now(UTC) + timedelta(hours=1))
    return [opened.checkpoint_id]


def checkpoints_waiting(tenant: Tenant) -> list[Any]:
    a_checkpoint(tenant)
    return []


def _newest(tenant: Tenant) -> str:
    newest = Checkpoint.objects.filter(tenant=tenant.pk, state="open").order_by("pk").last()
    return f"{tenant.slug}:{newest.checkpoint_id if newest else uuid4()}"


def claim_of_row(tenant: Tenant) -> dict[str, Any]:
    return {"claim": _newest(tenant)}


def stop_of_rows(tenant: Tenant) -> dict[str, Any]:
    return {"action": "stop", "do": "1", "pick": f"{_newest(tenant)}:1"}


def a_reviewer(tenant: Tenant) -> dict[str, Any]:
    return {"to": next((person.pk for person in reviewers_of(tenant)), "")}


def a_channel(tenant: Tenant, address: Address | None = None) -> list[Any]:
    address = address or MailAddress(("confidential@example.com",))
    place, wants = ChannelPlace(tenant.organisation, tenant), {"name": "confidential-channel"}
    made = create_channel(place, address, wants, actor=SYSTEM, now=NOW)
    Notification.objects.create(
        channel=made,
        kind="test",
        subject=uuid4(),
        transition="test",
        state="sent",
        said="confidential",
        **dict.fromkeys(("created_at", "due_at", "ended_at"), NOW),
    )
    return [made.pk]


def a_webhook(tenant: Tenant) -> list[Any]:
    return a_channel(tenant, WebhookAddress("https://example.com/", (new_signing_secret(),)))


def channels_there(tenant: Tenant) -> list[Any]:
    """Leave a channel of the tenant, and one of the installation."""
    a_channel(tenant)
    address = MailAddress(("confidential@example.com",))
    create_channel(ChannelPlace(), address, {"name": "confidential-duty"}, actor=SYSTEM, now=NOW)
    return []


def channel_settings(tenant: Tenant) -> dict[str, Any]:
    told = {"severity": "warning", "group_s": 20, "repeat_h": 4, "version": 1}
    return {"name": "New name", "kind": "mail", "to": "new@example.com", **told}


def new_channel(tenant: Tenant) -> dict[str, Any]:
    return channel_settings(tenant) | {"place": f"tenant:{tenant.slug}"}


def an_incident(tenant: Tenant) -> list[Any]:
    """Open an incident of the tenant, and one that concerns the installation."""
    named = {"severity": Severity.WARNING, "title": "confidential incident"}
    installation = Finding(tenant_id=None, rule=RuleKind.DISK, **named)
    open_incident(installation, now=NOW)
    finding = Finding(tenant_id=tenant.pk, rule=RuleKind.COST, subject=str(uuid4()), **named)
    return [open_incident(finding, now=NOW).incident.pk]


def an_incident_that_is_over(tenant: Tenant) -> list[Any]:
    [key] = an_incident(tenant)
    subject = Incident.objects.get(pk=key).subject
    resolve_incident(tenant.pk, RuleKind.COST, subject, now=NOW, how="confidential")
    return [key]


def incidents_there(tenant: Tenant) -> list[Any]:
    an_incident(tenant)
    return []


def a_silence(tenant: Tenant) -> list[Any]:
    actor, until = make_member(tenant, Role.REVIEWER), NOW + timedelta(days=1)
    made = silence(tenant, rule=None, until=until, reason="confidential", actor=actor, now=NOW)
    return [made.pk]


def silences_there(tenant: Tenant) -> list[Any]:
    a_silence(tenant)
    return []


def new_silence(tenant: Tenant) -> dict[str, Any]:
    return {"tenant": tenant.slug, "rule": "cost", "lasting": "1h", "reason": "x"}


def rule_settings(tenant: Tenant) -> dict[str, Any]:
    limits = {"ratio": 3, "usd": 5, "tasks": 30}
    return {"tenant": tenant.slug, "job": "", "enabled": "on", "severity": "info", "version": 0, **limits}


OPEN = {
    # Tell what is alive; the numbers of /metrics are for loopback or who has its token.
    *("healthz", "livez", "readyz", "metrics"),
    "tenants:login",
    "tenants:logout",
    # Opened by links that only their owner has; each has tests of its own.
    "tenants:invitation",
    "tenants:password-link",
    "tenants:password-reset",
}
"""Routes that are everybody's and show nothing of anybody's."""
ROUTES: dict[str, Page] = {
    "runs:overview": Page(see=EVERYBODY),
    "runs:attention": Page(see=EVERYBODY, shows=False),
    "runs:overview-export": Page(arguments=lambda _: ["halts"], see=EVERYBODY, shows=False),
    "runs:list": Page(see=EVERYBODY),
    "runs:quality-export": Page(see=EVERYBODY, shows=False),
    "runs:quality": Page(see=EVERYBODY),
    "runs:export": Page(see=EVERYBODY),
    "runs:live-export": Page(arguments=a_live_run, see=EVERYBODY),
    "runs:connect": Page(
        see=EVERYBODY, act=ADMINS, form=lambda tenant: {"tenant": tenant.slug}, hidden_from=STRANGERS
    ),
    "runs:connect-status": Page(see=EVERYBODY - {"nobody"}, hidden_from=STRANGERS),
    "runs:detail": Thing(arguments=a_run, see=VIEWERS),
    "runs:live": Page(arguments=a_live_run, see=EVERYBODY),
    "runs:advisor": Page(see=VIEWERS, hidden_from=STRANGERS),
    "runs:policy-replay": Page(see=VIEWERS, hidden_from=STRANGERS),
    "runs:review": Thing(arguments=a_stop, see=REVIEWERS, act=REVIEWERS, form=stop_review),
    "runs:checkpoint": Thing(arguments=a_checkpoint, see=VIEWERS),
    "runs:checkpoint-decide": Thing(
        arguments=a_checkpoint,
        see=REVIEWERS,
        act=REVIEWERS,
        form=lambda _: {"action": "stop", "version": 1},
        shows=False,
    ),
    "runs:checkpoint-undo": Thing(arguments=a_decided_checkpoint, act=REVIEWERS),
    "runs:checkpoint-claim": Thing(arguments=a_checkpoint, act=REVIEWERS),
    # Nobody here holds a claim that could be renewed or given back.
    "runs:checkpoint-renew": Thing(arguments=a_checkpoint, act=REVIEWERS, changes=False),
    "runs:checkpoint-release": Thing(arguments=a_checkpoint, act=REVIEWERS, changes=False),
    "runs:checkpoint-hand-over": Thing(arguments=a_checkpoint, act=REVIEWERS, form=a_reviewer),
    "runs:checkpoint-note": Thing(arguments=a_checkpoint, act=REVIEWERS, form=lambda _: {"text": "x"}),
    "runs:review-queue": Page(arguments=checkpoints_waiting, see=EVERYBODY),
    "runs:review-export": Page(arguments=checkpoints_waiting, see=EVERYBODY),
    "runs:review-new-count": Page(see=EVERYBODY, shows=False),
    "runs:review-act": Page(act=REVIEWERS, form=claim_of_row, hidden_from=STRANGERS),
    "runs:review-bulk": Page(
        see=REVIEWERS | {"foreign_admin"}, act=REVIEWERS | {"foreign_admin"}, form=stop_of_rows, shows=False
    ),
    "runs:case": Thing(arguments=a_run, see=VIEWERS),
    "runs:storage": Page(see=ORGANISATION_ADMINS | OPERATORS, shows=False),
    "runs:health": Page(see=ORGANISATION_ADMINS | OPERATORS, shows=False),
    "runs:incidents": Page(arguments=incidents_there, see=EVERYBODY),
    "runs:incidents-export": Page(arguments=incidents_there, see=EVERYBODY),
    "runs:rules-export": Page(see=EVERYBODY, shows=False),
    "runs:silences-export": Page(arguments=silences_there, see=EVERYBODY),
    "runs:incident": Thing(arguments=an_incident, see=VIEWERS),
    "runs:incident-acknowledge": Thing(arguments=an_incident, act=REVIEWERS, form=lambda _: {"version": 1}),
    "runs:incident-assign": Thing(
        arguments=an_incident, act=REVIEWERS, form=lambda tenant: a_reviewer(tenant) | {"version": 1}
    ),
    "runs:incident-note": Thing(arguments=an_incident, act=REVIEWERS, form=lambda _: {"note": "x"}),
    "runs:incident-resolve": Thing(arguments=an_incident, act=REVIEWERS, form=lambda _: {"version": 1}),
    "runs:incident-reopen": Thing(
        arguments=an_incident_that_is_over, act=REVIEWERS, form=lambda _: {"version": 2}
    ),
    "runs:rules": Page(see=EVERYBODY),
    "runs:rule-edit": Thing(
        arguments=lambda _: ["cost"], see=ADMINS, act=ADMINS, form=rule_settings, hidden_from=STRANGERS
    ),
    "runs:silences": Page(arguments=silences_there, see=EVERYBODY),
    "runs:silence-new": Page(
        see=REVIEWERS | {"foreign_admin"} | OPERATORS,
        act=REVIEWERS | {"foreign_admin"},
        form=new_silence,
        shows=False,
    ),
    "runs:silence-end": Thing(arguments=a_silence, see=REVIEWERS, act=REVIEWERS),
    "runs:channels": Page(arguments=channels_there, see=ADMINS_SOMEWHERE | OPERATORS),
    "runs:channels-export": Page(arguments=channels_there, see=ADMINS_SOMEWHERE | OPERATORS),
    "runs:channel-new": Page(
        see=ADMINS_SOMEWHERE | OPERATORS, act=ADMINS_SOMEWHERE, form=new_channel, shows=False
    ),
    "runs:channel": Thing(arguments=a_channel, see=ADMINS, act=ADMINS, form=channel_settings),
    "runs:channel-test": Thing(arguments=a_channel, act=ADMINS),
    "runs:channel-rotate": Thing(arguments=a_webhook, see=ADMINS, act=ADMINS),
    "runs:channel-delete": Thing(arguments=a_channel, see=ADMINS, act=ADMINS),
    "runs:deliveries-export": Thing(arguments=a_channel, see=ADMINS),
    "runs:job-types": Page(see=EVERYBODY, shows=False),
    "runs:live-count": Page(arguments=a_live_run, see=VIEWERS, hidden_from=STRANGERS),
    "runs:sources-used": Page(
        arguments=a_proposal, see=EVERYBODY - {"nobody"}, hidden_from=STRANGERS, shows=False
    ),
    "runs:sources-proposed": Page(arguments=a_proposal, see=EVERYBODY - {"nobody"}, hidden_from=STRANGERS),
    "runs:sources": Page(arguments=a_used_source, see=EVERYBODY),
    "runs:sources-export": Page(arguments=a_used_source, see=EVERYBODY),
    "runs:releases": Page(arguments=a_release, see=EVERYBODY),
    "runs:releases-export": Page(arguments=a_release, see=EVERYBODY),
    "runs:source": Thing(arguments=a_source, see=VIEWERS, hidden_from=STRANGERS),
    "runs:source-block": Page(
        see=ADMINS_SOMEWHERE | OPERATORS, act=ADMINS_SOMEWHERE, form=new_source_block, shows=False
    ),
    "policies:list": Page(arguments=a_policy, see=EVERYBODY),
    "policies:policies-export": Page(arguments=a_policy, see=EVERYBODY, shows=False),
    "policies:versions-export": Page(arguments=a_policy, see=VIEWERS, hidden_from=STRANGERS),
    "policies:stops-export": Page(arguments=stops_in_force, see=EVERYBODY),
    "policies:guards-export": Page(arguments=a_guard, see=EVERYBODY),
    "policies:versions": Page(arguments=a_policy, see=VIEWERS, hidden_from=STRANGERS),
    "policies:edit": Page(see=ADMINS, act=ADMINS, form=new_policy, hidden_from=STRANGERS),
    "policies:rollback": Page(
        arguments=a_policy, act=ADMINS, see=ADMINS, form=old_policy, hidden_from=STRANGERS
    ),
    "policies:blocklist": Page(arguments=blocked_names, see=EVERYBODY),
    "policies:blocklist-csv": Page(arguments=blocked_names, see=EVERYBODY),
    "policies:blocklist-proposed": Page(see=EVERYBODY),
    "policies:blocklist-add": Page(
        see=ADMINS_SOMEWHERE | OPERATORS, act=ADMINS_SOMEWHERE, form=new_block, shows=False
    ),
    "policies:blocklist-remove-many": Page(
        see=ADMINS_SOMEWHERE | OPERATORS, act=ADMINS_SOMEWHERE, form=blocked_ids, shows=False
    ),
    "policies:blocklist-remove": Thing(arguments=a_block, see=ADMINS, act=ADMINS),
    "policies:blocklist-restore": Thing(arguments=a_removed_block, see=ADMINS, act=ADMINS),
    "policies:blocklist-revert": Thing(arguments=a_block_change, see=ADMINS, act=ADMINS),
    "policies:stops": Page(arguments=stops_in_force, see=EVERYBODY),
    "policies:stop-new": Page(see=ADMINS_SOMEWHERE, act=ADMINS_SOMEWHERE, form=new_stop),
    "policies:stop-lift": Thing(arguments=a_stop_order, see=ADMINS, act=ADMINS),
    "policies:signing": Page(see=ADMINS_SOMEWHERE),
    "policies:signing-rotate": Thing(arguments=lambda tenant: [tenant.slug], see=ADMINS, act=ADMINS),
    "policies:guards": Page(arguments=a_guard, see=EVERYBODY),
    "policies:applied": Page(see=VIEWERS, hidden_from=STRANGERS, shows=False),
    "policies:change": Thing(arguments=a_change, see=VIEWERS),
    "tenants:saved-views": Page(
        arguments=a_list, see=EVERYBODY, act=EVERYBODY, form=new_view, shows=False, own=True
    ),
    "tenants:saved-view-rename": Thing(arguments=a_view, act=frozenset(), hidden_from=EVERYBODY),
    "tenants:saved-view-delete": Thing(arguments=a_view, act=frozenset(), hidden_from=EVERYBODY),
    "tenants:audit": Page(see=ADMINS_SOMEWHERE | OPERATORS),
    "tenants:members-export": Page(see=ADMINS_SOMEWHERE),
    "tenants:invitations-export": Page(see=ADMINS_SOMEWHERE),
    "tenants:tenants-export": Page(see=ADMINS_SOMEWHERE),
    "tenants:audit-csv": Page(see=ADMINS_SOMEWHERE | OPERATORS),
    "tenants:settings": Page(see=EVERYBODY, shows=False),
    "tenants:account": Page(
        see=EVERYBODY, act=EVERYBODY, form=lambda _: {"first_name": "New"}, shows=False, own=True
    ),
    # Who posts nothing has tried a password; a changed one would end the sessions of this walk.
    "tenants:password-change": Page(see=EVERYBODY, act=EVERYBODY, shows=False, own=True),
    "tenants:organisations": Page(see=ADMINS_SOMEWHERE),
    "tenants:organisation": Thing(
        arguments=an_organisation,
        see=ORGANISATION_ADMINS,
        act=ORGANISATION_ADMINS,
        form=new_settings,
        shows=False,
    ),
    "tenants:tenant-create": Thing(
        arguments=an_organisation,
        see=ORGANISATION_ADMINS,
        act=ORGANISATION_ADMINS,
        form=lambda _: {"name": "New", "slug": "new-tenant"},
        shows=False,
    ),
    "tenants:tenant-rename": Thing(
        arguments=lambda tenant: [tenant.slug], see=ADMINS, act=ADMINS, form=lambda _: {"name": "New"}
    ),
    "tenants:members": Page(see=ADMINS_SOMEWHERE),
    "tenants:member": Thing(arguments=a_role, see=ADMINS, act=ADMINS, form=lambda _: {"role": "reviewer"}),
    "tenants:member-remove": Thing(arguments=a_role, see=ADMINS, act=ADMINS),
    "tenants:invite": Page(see=ADMINS_SOMEWHERE, act=ADMINS_SOMEWHERE, form=new_invitation),
    "tenants:invitation-revoke": Thing(arguments=an_invitation, see=ADMINS, act=ADMINS),
    "tenants:keys": Page(see=ADMINS_SOMEWHERE),
    "tenants:key-create": Page(see=ADMINS_SOMEWHERE, act=ADMINS_SOMEWHERE, form=new_key),
    "tenants:keys-csv": Page(see=ADMINS_SOMEWHERE),
    "tenants:key-rotate": Thing(arguments=a_key, see=ADMINS, act=ADMINS, form=lambda _: {"grace": "1d"}),
    "tenants:key-revoke": Thing(arguments=a_key, see=ADMINS, act=ADMINS),
}
FILES = {f"{name}-json": name for name in ROUTES if name.endswith(("export", "-csv"))}
"""Each list's file in JSON, and the one in CSV: the same view, which is walked once."""


def routes_of(resolver: URLResolver, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for entry in resolver.url_patterns:
        if isinstance(entry, URLPattern):
            yield f"{prefix}{entry.name or entry.pattern}", entry.callback
        else:
            yield from routes_of(entry, f"{entry.namespace}:" if entry.namespace else prefix)


def test_every_route_is_walked() -> None:
    views = dict(routes_of(get_resolver()))
    assert set(views) == OPEN | set(ROUTES) | set(FILES)
    assert {json: views[json] for json in FILES} == {json: views[csv] for json, csv in FILES.items()}


@pytest.mark.django_db
@pytest.mark.parametrize("who", ["anonymous", *sorted(EVERYBODY)])
def test_everybody_gets_of_each_route_what_they_may(client: Client, who: str) -> None:
    tenant = make_tenant("confidential-tenant")
    run = make_run_event(run_id=RUN_ID, ended_at=ENDED_AT, job_type="confidential-job")
    store_runs(tenant, run, received_at=NOW)
    arguments = {name: list(route.arguments(tenant)) for name, route in ROUTES.items()}
    if who != "anonymous":
        client.force_login(person(tenant, who))
    asked = [
        Asked(client, tenant, who, name, route, arguments[name], htmx)
        for name, route in ROUTES.items()
        for htmx in (False, True)
    ]
    assert "\n".join(line for one in asked for line in one.faults()) == ""


def person(tenant: Tenant, who: str) -> User:
    match who:
        case "nobody":
            return make_user()
        case "operator":
            return make_operator()
        case "foreign_admin":
            return make_member(make_tenant("elsewhere"), Role.ADMIN)
        case "organisation_admin":
            return make_member(tenant.organisation, Role.ADMIN)
        case _:
            return make_member(tenant, Role(who))


@dataclass(frozen=True)
class Asked:
    """One route asked by one person, as a page or for htmx."""

    client: Client
    tenant: Tenant
    who: str
    name: str
    route: Page
    arguments: list[Any]
    htmx: bool

    def faults(self) -> Iterator[str]:
        """Yield in words whatever is not as the route's line says."""
        kind = " of htmx" if self.htmx else ""
        for method, allowed in (("GET", self.route.see), ("POST", self.route.act)):
            found = [*self._answered(method, allowed)]
            if self.who in STRANGERS and allowed is not None:
                found += self._told_apart(method)
            yield from (f"{method}{kind} {self.name} by {self.who}: {fault}" for fault in found)

    def ask(self, method: str, arguments: Sequence[Any], tenant: Tenant | None) -> Answer:
        """Ask for the route, with the filter of that tenant where one is given, and undo what it did."""
        headers = {"HX-Request": "true"} if self.htmx else {}
        address = reverse(self.name, args=arguments)
        cookies, before = deepcopy(self.client.cookies), rows_written()
        begun = transaction.savepoint()  # no block: pages open transactions that must be the outermost one
        if method == "GET":
            response = self.client.get(address, {"tenant": tenant.slug} if tenant else {}, headers=headers)
        else:
            response = self.client.post(address, self.route.form(tenant or self.tenant), headers=headers)
        text, changed = text_of(response), rows_written() != before
        transaction.savepoint_rollback(begun)
        self.client.cookies = cookies  # of the session that is there again
        return Answer(response.status_code, response.get("Location", ""), text, changed)

    def _answered(self, method: str, allowed: frozenset[str] | None) -> Iterator[str]:
        at_home = self.who not in STRANGERS
        answer = self.ask(method, self.arguments, self.tenant if at_home else None)
        if self.who == "anonymous":
            if not answer.location.startswith("/login/?next="):
                yield f"{answer.status}, and not the login page"
            if answer.changed:
                yield "changes something"
            return
        may = self.who in (allowed or ())
        if answer.status not in self._wanted(allowed) or answer.location.startswith("/login/"):
            yield f"{answer.status} {answer.location}, not one of {self._wanted(allowed)}"
        if answer.changed and not (may and method == "POST" and (at_home or self.route.own)):
            yield "changes something"
        if not at_home and method == "GET" and "confidential" in answer.text:
            yield "names something confidential"
        page = may and at_home and method == "GET" and not self.htmx
        if page and self.route.shows and "confidential" not in answer.text:
            yield "shows nothing"
        if may and at_home and method == "POST" and self.route.changes and not answer.changed:
            yield "changes nothing"

    def _wanted(self, allowed: frozenset[str] | None) -> set[int]:
        if allowed is None:
            return {405}
        if self.who in allowed:
            return {200, 204, 286, 302}
        return {404} if self.who in self.route.hidden_from else {403}

    def _told_apart(self, method: str) -> Iterator[str]:
        nowhere = Tenant(pk=other_than(self.tenant.pk), slug="made-up", organisation_id=self.tenant.pk)
        made_up = [other_than(argument) for argument in self.arguments]
        real = self.ask(method, self.arguments, self.tenant)
        unknown = self.ask(method, made_up, nowhere)
        shown = real.without(reverse(self.name, args=self.arguments), self.tenant.slug)
        if shown != unknown.without(reverse(self.name, args=made_up), nowhere.slug):
            yield "tells what exists from what doesn't"
        if "confidential" in shown.text:
            yield "names something confidential where the tenant is named"


class Answer(NamedTuple):
    status: int
    location: str
    text: str
    changed: bool

    def without(self, *asked: str) -> Answer:
        """Return the answer without what was asked for, which it may repeat."""
        text = self.text
        for part in asked:
            text = text.replace(part, "")
        return self._replace(text=text)


def other_than(argument: Any) -> Any:
    """Return an argument of the same kind that names nothing."""
    match argument:
        case UUID():
            return UUID(int=argument.int + 1)
        case int():
            return argument + 1_000_000
        case str() if argument == A_LIST:
            return argument  # a list's name is nobody's secret
        case _:
            return "made-up"


def text_of(response: HttpResponse) -> str:
    """Return the page in small letters, without its CSRF token and the moment it was made."""
    text = b"".join(response) if response.streaming else response.content
    found = re.sub(r'(name="csrfmiddlewaretoken" value=|"X-CSRFToken": )"[^"]+"', "", text.decode())
    return re.sub(r"<time\b.*?</time>", "", found).casefold()


def rows_written() -> int:
    """Return how many rows this transaction has added, changed and deleted; those of sessions don't count."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_xact_user_tables"
            " WHERE relname <> 'django_session'"
        )
        [written] = cursor.fetchone()
    assert isinstance(written, int)
    return written
