"""People and their roles: the only place that writes them."""

from __future__ import annotations

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError
from django.db.models.functions import Now

from . import access
from .actors import System, acting
from .choices import Role
from .errors import InvalidMembership
from .models import Invitation, Membership, Organisation, Tenant, User


def create_user(
    *, username: str, password: str, actor: User | System, email: str = "", is_operator: bool = False
) -> User:
    """Make a person who can log in; roles are given by ``set_membership``.

    Raises ValidationError for a name that can't be one or is taken, and for a weak password.
    """
    user = User(username=User.normalize_username(username), email=email, is_operator=is_operator)
    user.set_password(password)
    user.full_clean()
    validate_password(password, user)
    try:
        with acting(actor):
            user.save(force_insert=True)
    except IntegrityError:  # somebody took the name between the question and the answer
        raise ValidationError({"username": "A user with that username already exists."}) from None
    return user


def update_account(
    user: User, *, first_name: str, last_name: str, email: str, keyboard_shortcuts: bool
) -> None:
    """Change what a person says of themselves; raises ValidationError for what can't be said."""
    user.first_name, user.last_name, user.email = first_name, last_name, email
    user.keyboard_shortcuts = keyboard_shortcuts
    fields = ["first_name", "last_name", "email", "keyboard_shortcuts"]
    user.clean_fields(exclude={field.name for field in User._meta.fields} - set(fields))
    with acting(user):
        user.save(update_fields=fields)


def lock_people(organisation: Organisation) -> None:
    """Let nobody else change who is in ``organisation`` before the transaction ends.

    Every writer of its memberships, and who accepts or makes an invitation, takes this lock first: so the
    questions "is this the last admin" and "may they" have the same answer when the change is written.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)


def set_membership(
    *, user: User, organisation: Organisation, role: Role, actor: User | System, tenant: Tenant | None = None
) -> Membership:
    """Give ``user`` the role in ``tenant``, or in the whole organisation, in place of the one held there.

    Raises InvalidMembership where the tenant is another organisation's, and (``last_admin``) where the
    organisation would be left without an admin. Whether ``actor`` may is for the caller to have asked.
    """
    if tenant is not None and tenant.organisation_id != organisation.pk:
        raise InvalidMembership(f"{tenant.name} is no tenant of {organisation.name}.")
    with acting(actor):
        lock_people(organisation)
        held = Membership.objects.filter(user=user, organisation=organisation, tenant=tenant).first()
        if held is not None and role != Role.ADMIN:
            _leave_an_admin(held)
        membership, _ = Membership.objects.update_or_create(
            user=user, organisation=organisation, tenant=tenant, defaults={"role": role}
        )
        _take_back_invitations(membership)
    return membership


def change_role(membership: Membership, role: Role, *, actor: User) -> None:
    """Give a member another role in the same place.

    Raises PermissionDenied where ``actor`` is no admin there, InvalidMembership where the role is ``gone``
    already or the ``last_admin``'s.
    """
    with acting(actor):
        membership = _locked(membership, actor)
        set_membership(
            user=membership.user,
            organisation=membership.organisation,
            tenant=membership.tenant,
            role=role,
            actor=actor,
        )


def remove_member(membership: Membership, *, actor: User) -> None:
    """Take a role away: from the next request on it opens nothing. Raises as ``change_role`` does."""
    with acting(actor):
        membership = _locked(membership, actor)
        _leave_an_admin(membership)
        Membership.objects.filter(pk=membership.pk).delete()
        _take_back_invitations(membership)


def _locked(membership: Membership, actor: User) -> Membership:
    lock_people(membership.organisation)
    found = (
        Membership.objects.select_related("user", "organisation", "tenant").filter(pk=membership.pk).first()
    )
    if found is None:
        raise InvalidMembership("This role has been taken away already.", code="gone")
    if not access.administers(actor, found.organisation_id, found.tenant_id):
        raise PermissionDenied("This needs the role admin there.")
    return found


def _leave_an_admin(membership: Membership) -> None:
    """Raise InvalidMembership where nobody else would administer the organisation."""
    if membership.tenant_id is not None or membership.role != Role.ADMIN:
        return
    others = Membership.objects.filter(
        organisation=membership.organisation_id, tenant=None, role=Role.ADMIN, user__is_active=True
    ).exclude(pk=membership.pk)
    if not others.exists():
        raise InvalidMembership(
            "This is the last admin of the organisation; make somebody else an admin first.",
            code="last_admin",
        )


def _take_back_invitations(changed: Membership) -> None:
    """Revoke the open invitations of who may no longer make such."""
    mine = Invitation.objects.filter(
        organisation=changed.organisation_id, created_by=changed.user_id, accepted_at=None, revoked_at=None
    )
    void = [
        invitation.pk
        for invitation in mine
        if not access.administers(changed.user, changed.organisation_id, invitation.tenant_id)
    ]
    if void:
        Invitation.objects.filter(pk__in=void).update(revoked_at=Now())
