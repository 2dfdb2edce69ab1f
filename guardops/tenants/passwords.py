"""Passwords: changed by who knows the old one, reset by who has a link."""

from __future__ import annotations

from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.db.models import Q
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode

from .actors import acting
from .errors import InvalidLink
from .models import User

_MOST_ACCOUNTS = 5  # of one e-mail address that get a link each


def change_password(user: User, password: str) -> None:
    """Set ``user``'s own new password; every other session of theirs ends with it.

    Raises ValidationError for a weak password. That the old one is known is for the caller to have asked.
    """
    validate_password(password, user)
    user.set_password(password)
    with acting(user):
        user.save(update_fields=["password"])


def reset_path(user: User) -> str:
    """Return the path of a link that sets a new password: for an hour, once, and not after a login."""
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return reverse("tenants:password-link", args=[uid, default_token_generator.make_token(user)])


def find_by_link(uid: str, token: str) -> User:
    """Return whose link it is; raises InvalidLink for one that is used, too old, or none of ours."""
    try:
        pk = int(urlsafe_base64_decode(uid))
    except (ValueError, UnicodeError):
        raise InvalidLink("This is no link of ours.") from None
    user = User.objects.filter(pk=pk, is_active=True).first()
    if user is None or not default_token_generator.check_token(user, token):
        raise InvalidLink("This link has been used or is too old.")
    return user


def reset_password(uid: str, token: str, password: str) -> User:
    """Set the password of whose link it is; raises InvalidLink, and ValidationError for a weak password."""
    user = find_by_link(uid, token)
    validate_password(password, user)
    hashed = User(password="")
    hashed.set_password(password)  # the slow part, before the row is locked
    with acting(user):
        # Locked and asked again: of two who use one link at once, one sets the password.
        user = User.objects.select_for_update().get(pk=user.pk)
        if not default_token_generator.check_token(user, token):
            raise InvalidLink("This link has been used or is too old.")
        user.password = hashed.password
        user.save(update_fields=["password"])
    return user


def who_may_reset(text: str) -> list[User]:
    """Return the active people with an e-mail address whose name or address ``text`` is."""
    found = User.objects.filter(Q(username=text) | Q(email__iexact=text), is_active=True).exclude(email="")
    return [user for user in found.order_by("pk")[:_MOST_ACCOUNTS] if user.has_usable_password()]
