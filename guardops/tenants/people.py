"""People and their roles: the only place that writes them."""

from __future__ import annotations

from django.contrib.auth.password_validation import validate_password

from .actors import System, acting
from .choices import Role
from .errors import InvalidMembership
from .models import Membership, Organisation, Tenant, User


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
    with acting(actor):
        user.save(force_insert=True)
    return user


def set_membership(
    *, user: User, organisation: Organisation, role: Role, actor: User | System, tenant: Tenant | None = None
) -> Membership:
    """Give ``user`` the role in ``tenant``, or in the whole organisation, in place of the one held there.

    Raises InvalidMembership where the tenant is another organisation's.
    """
    if tenant is not None and tenant.organisation_id != organisation.pk:
        raise InvalidMembership(f"{tenant.name} is no tenant of {organisation.name}.")
    with acting(actor):
        # Locks the row where there is one; of two first grants the unique constraint makes one row.
        membership, _ = Membership.objects.update_or_create(
            user=user, organisation=organisation, tenant=tenant, defaults={"role": role}
        )
    return membership
