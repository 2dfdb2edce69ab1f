"""Invitations: made by admins, accepted once by whoever has the link. The only place that writes them."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.core.exceptions import PermissionDenied, ValidationError
from django.core.validators import validate_email
from django.db import transaction

from . import access
from .actors import SYSTEM, acting
from .choices import Role
from .errors import InvalidInvitation
from .models import Invitation, Membership, Organisation, Tenant, User
from .people import create_user, lock_people, set_membership

LIFETIME = timedelta(days=7)
MAX_OPEN = 200

_ENDS = {
    "accepted": "This invitation has been accepted already.",
    "revoked": "This invitation was taken back.",
    "expired": "This invitation is older than seven days.",
    "void": "Whoever sent this invitation may no longer invite anybody there.",
}


def invite(
    *,
    organisation: Organisation,
    role: Role,
    invitee: str,
    actor: User,
    now: datetime,
    tenant: Tenant | None = None,
) -> tuple[Invitation, str]:
    """Make an invitation and return it with the token of its link, which is kept nowhere.

    Raises PermissionDenied where ``actor`` is no admin there, InvalidInvitation where it makes no sense.
    """
    if tenant is not None and tenant.organisation_id != organisation.pk:
        raise InvalidInvitation(f"{tenant.name} is no tenant of {organisation.name}.")
    if not invitee.strip():
        raise InvalidInvitation("Say whom you invite.")
    token = secrets.token_urlsafe(32)
    with acting(actor):
        lock_people(organisation)
        if not access.administers(actor, organisation.pk, tenant.pk if tenant else None):
            raise PermissionDenied("Only an admin invites.")
        if Invitation.objects.open(now).filter(organisation=organisation).count() >= MAX_OPEN:
            raise InvalidInvitation(f"{MAX_OPEN} invitations are open already; take some back first.")
        invitation = Invitation.objects.create(
            organisation=organisation,
            tenant=tenant,
            role=role,
            invitee=invitee.strip(),
            digest=_digest(token),
            created_by=actor,
            created_at=now,
            expires_at=now + LIFETIME,
        )
    return invitation, token


def mail_address_of(invitation: Invitation) -> str:
    """Return the e-mail address that the invitation is meant for, empty where it names somebody otherwise."""
    try:
        validate_email(invitation.invitee)
    except ValidationError:
        return ""
    return invitation.invitee


def revoke_invitation(invitation: Invitation, *, actor: User, now: datetime) -> None:
    """Take an invitation back; raises InvalidInvitation where it is accepted or was taken back before."""
    with acting(actor):
        # Compare and set, as in accept: one of the two wins.
        open_still = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, revoked_at=None)
        if not open_still.update(revoked_at=now):
            invitation.refresh_from_db()
            raise _ended("accepted" if invitation.accepted_at else "revoked")


def find_invitation(token: str, now: datetime) -> Invitation:
    """Return the open invitation of a link.

    Raises InvalidInvitation: ``unknown`` for a token of none, else why it doesn't count any more.
    """
    invitation = (
        Invitation.objects.select_related("organisation", "tenant", "created_by")
        .filter(digest=_digest(token))
        .first()
    )
    if invitation is None:
        raise InvalidInvitation("There is no such invitation.", code="unknown")
    _require_open(invitation, now)
    return invitation


def accept(token: str, *, user: User, now: datetime) -> Membership:
    """Give ``user`` what the invitation holds; a higher role that they have there already stays.

    Raises InvalidInvitation as ``find_invitation`` does; of several at once one gets it.
    """
    invitation = find_invitation(token, now)
    with acting(user):
        lock_people(invitation.organisation)
        # Compare and set: of two who have the link, one wins.
        claimed = Invitation.objects.open(now).filter(pk=invitation.pk)
        if not claimed.update(accepted_at=now, accepted_by=user):
            invitation.refresh_from_db()
            _require_open(invitation, now)
        # Asked under the lock: no admin comes back through a link made before being removed.
        if not access.administers(invitation.created_by, invitation.organisation_id, invitation.tenant_id):
            raise _ended("void")
        organisation, tenant, role = invitation.organisation, invitation.tenant, Role(invitation.role)
        held = Membership.objects.filter(user=user, organisation=organisation, tenant=tenant).first()
        if held is not None and Role(held.role).rank >= role.rank:
            return held
        return set_membership(user=user, organisation=organisation, tenant=tenant, role=role, actor=user)


def accept_as_new(token: str, *, username: str, email: str, password: str, now: datetime) -> User:
    """Make a person of the name and give them what the invitation holds, both or neither.

    Raises InvalidInvitation as ``accept`` does, and ValidationError as ``create_user`` does.
    """
    find_invitation(token, now)
    with transaction.atomic():
        # The person first: the password's slow hash is done before anything is locked.
        user = create_user(username=username, email=email, password=password, actor=SYSTEM)
        accept(token, user=user, now=now)
    return user


def _require_open(invitation: Invitation, now: datetime) -> None:
    if invitation.accepted_at is not None:
        raise _ended("accepted")
    if invitation.revoked_at is not None:
        raise _ended("revoked")
    if invitation.expires_at <= now:
        raise _ended("expired")
    if not access.administers(invitation.created_by, invitation.organisation_id, invitation.tenant_id):
        raise _ended("void")


def _ended(code: str) -> InvalidInvitation:
    return InvalidInvitation(_ENDS[code], code=code)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
