"""Pages of who is a member: roles and invitations. What somebody may do is asked of ``access`` alone."""

from __future__ import annotations

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from guardops.shown import visible_text
from guardops.tenants import access, mail
from guardops.tenants.choices import Role
from guardops.tenants.errors import InvalidInvitation, InvalidMembership
from guardops.tenants.forms.people import WHAT_ROLES_MAY, InviteForm, RoleForm
from guardops.tenants.invitations import MAX_OPEN, invite, mail_address_of, revoke_invitation
from guardops.tenants.models import Invitation, Membership, User
from guardops.tenants.people import change_role, remove_member

from .requests import AuthenticatedRequest

MEMBERS_PER_PAGE = 100
INVITATIONS_SHOWN = MAX_OPEN  # the open ones come first, so that each can be taken back

INVITATION_MAIL = """{who} invites you to {place} on GuardOps, as {role}.

This link accepts it. It works until {until} UTC, and once:

{link}

If you did not expect this, do nothing.
"""


@never_cache
@require_safe
def members(request: AuthenticatedRequest) -> HttpResponse:
    listed = access.members_to_manage(request.user)
    invitations = access.invitations_to_manage(request.user).with_state(timezone.now())
    organisations = access.administered_organisations(request.user)
    return render(
        request,
        "tenants/members.html",
        {
            "page": Paginator(listed, MEMBERS_PER_PAGE).get_page(request.GET.get("page")),
            "invitations": invitations[:INVITATIONS_SHOWN],
            "most": INVITATIONS_SHOWN,
            "whole": set(organisations.values_list("pk", flat=True)),
            "tenants": set(access.administered_tenants(request.user).values_list("pk", flat=True)),
        },
    )


# never_cache says no-store: the answer that shows a link is kept by no browser and no proxy.
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def create_invitation(request: AuthenticatedRequest) -> HttpResponse:
    access.require_admin_of_something(request.user)
    form = InviteForm(
        request.POST if request.method == "POST" else None,
        organisations=access.administered_organisations(request.user),
        tenants=access.administered_tenants(request.user).select_related("organisation"),
    )
    if form.is_valid():
        try:
            invitation, token = invite(
                organisation=form.organisation,
                tenant=form.tenant,
                role=Role(form.cleaned_data["role"]),
                invitee=form.cleaned_data["invitee"],
                actor=request.user,
                now=timezone.now(),
            )
        except InvalidInvitation as error:
            form.add_error(None, error.message)
        else:
            return _invited(request, invitation, token)
    return render(request, "tenants/invite.html", {"form": form, "mails": mail.is_configured()})


def _invited(request: AuthenticatedRequest, invitation: Invitation, token: str) -> HttpResponse:
    """Send the invitation where that can be done, and show its link this one time."""
    link = request.build_absolute_uri(reverse("tenants:invitation", args=[token]))
    address = mail_address_of(invitation) if mail.is_configured() else ""
    sent = bool(address) and mail.send(
        to=address,
        subject=f"Join {invitation.organisation.name} on GuardOps",
        text=INVITATION_MAIL.format(
            who=visible_text(request.user.get_username()),
            place=visible_text(invitation.tenant.name if invitation.tenant else invitation.organisation.name),
            role=Role(invitation.role).label.lower(),
            until=f"{invitation.expires_at:%Y-%m-%d %H:%M}",
            link=link,
        ),
    )
    context = {"invitation": invitation, "link": link, "address": address, "sent": sent}
    return render(request, "tenants/invited.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def withdraw_invitation(request: AuthenticatedRequest, invitation_id: int) -> HttpResponse:
    invitation = access.require_invitation_admin(request.user, invitation_id)
    if request.method != "POST":
        return render(request, "tenants/invitation_revoke.html", {"invitation": invitation})
    try:
        revoke_invitation(invitation, actor=request.user, now=timezone.now())
    except InvalidInvitation as error:
        messages.warning(request, error.message)
    else:
        messages.success(request, f"The invitation of {visible_text(invitation.invitee)} is taken back.")
    return redirect("tenants:members")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def member(request: AuthenticatedRequest, membership_id: int) -> HttpResponse:
    membership = access.require_membership_admin(request.user, membership_id)
    data = request.POST if request.method == "POST" else None
    form = RoleForm(data, initial={"role": membership.role})
    if form.is_valid():
        role = form.cleaned_data["role"]
        try:
            change_role(membership, role, actor=request.user)
        except InvalidMembership as error:
            form.add_error(None, error.message)
        else:
            messages.success(request, f"{_name(membership.user)} is {role.label.lower()} now.")
            return _after(request, membership)
    return render(request, "tenants/member.html", {"membership": membership, "form": form})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: AuthenticatedRequest, membership_id: int) -> HttpResponse:
    membership = access.require_membership_admin(request.user, membership_id)
    context = {"membership": membership, "may": WHAT_ROLES_MAY[Role(membership.role)]}
    if request.method != "POST":
        return render(request, "tenants/member_remove.html", context)
    try:
        remove_member(membership, actor=request.user)
    except InvalidMembership as error:
        return render(request, "tenants/member_remove.html", context | {"error": error.message}, status=409)
    messages.success(request, f"{_name(membership.user)} has no role there any more.")
    return _after(request, membership)


def _after(request: AuthenticatedRequest, membership: Membership) -> HttpResponse:
    """Go back to the list; who gave up a role of their own may no longer be let in there."""
    return redirect("runs:overview" if membership.user == request.user else "tenants:members")


def _name(user: User) -> str:
    return visible_text(user.get_username())
