"""Strict readers for settings: a value that makes no sense stops the start and says which and why."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def text(name: str, default: str | None = None) -> str:
    """Return the variable's text; without a default it must be set and not empty."""
    value = os.environ.get(name, default)
    if value is None or (default is None and not value):
        raise ImproperlyConfigured(f"{name} must be set.")
    return value


def choice(name: str, allowed: Sequence[str], default: str) -> str:
    """Return the variable's text, which must be one of ``allowed``."""
    value = os.environ.get(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")
    return value


def boolean(name: str, default: bool) -> bool:
    """Return a yes or no."""
    value = os.environ.get(name)
    if value is None:
        return default
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name} is {value!r}; it must be true or false.")


def integer(name: str, default: int, *, low: int, high: int) -> int:
    """Return a whole number from ``low`` to ``high``."""
    raw = os.environ.get(name)
    if raw is None:
        return default
    try:
        value = int(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {raw!r}; it must be a whole number.") from None
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} is {value}; it must be from {low} to {high}.")
    return value


def words(name: str, default: Sequence[str] = ()) -> list[str]:
    """Return a comma-separated list without empty parts."""
    raw = os.environ.get(name)
    if raw is None:
        return list(default)
    return [part.strip() for part in raw.split(",") if part.strip()]


def database(
    url: str, *, settings: Mapping[str, str] | None = None, pool: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Return Django's connection settings for ``postgresql://user:password@host:port/name?host=/socket/folder``.

    Args:
        url: the address; what its query holds beside host and port goes to libpq as it is.
        settings: PostgreSQL settings of each session, by name.
        pool: options of psycopg's pool; without it each connection is opened and closed by its user.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured("DATABASE_URL must start with postgresql://.")
    name = unquote(parts.path.lstrip("/"))
    if not name:
        raise ImproperlyConfigured("DATABASE_URL names no database.")
    query = dict(parse_qsl(parts.query))
    host = query.pop("host", None) or unquote(parts.hostname or "")
    try:
        port = parts.port
    except ValueError:
        raise ImproperlyConfigured("DATABASE_URL has a port that is no number.") from None
    port_text = query.pop("port", None) or str(port or "")
    options: dict[str, object] = dict(query)
    if settings:
        words = [f"-c {setting}={value}" for setting, value in settings.items()]
        options["options"] = " ".join([*words, query.get("options", "")]).strip()
    if pool:
        options["pool"] = dict(pool)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": port_text,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": options,
    }
