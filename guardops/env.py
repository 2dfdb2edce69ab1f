"""Strict readers for settings: a value that makes no sense stops the start and says which and why."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parseaddr
from ipaddress import IPv4Network, IPv6Network, ip_network
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.validators import EmailValidator

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


def text(name: str, default: str | None = None) -> str:
    """Return the variable's text; without a default it must be set and not empty."""
    value = os.environ.get(name, default)
    if value is None or (default is None and not value):
        raise ImproperlyConfigured(f"{name} must be set.")
    return value


def secret(name: str, *, shortest: int) -> str:
    """Return a secret of at least ``shortest`` characters, empty where none is set; no message quotes it."""
    value = os.environ.get(name, "")
    if value and (len(value) < shortest or not value.isascii() or not value.isprintable() or " " in value):
        raise ImproperlyConfigured(f"{name} must have at least {shortest} plain characters and no spaces.")
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


def networks(name: str) -> list[IPv4Network | IPv6Network]:
    """Return a comma-separated list of networks, such as ``10.20.0.0/16``; an address is a network of one."""
    try:
        return [ip_network(word) for word in words(name)]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}; it must be networks such as 10.20.0.0/16.") from None


def web_address(name: str, default: str) -> str:
    """Return the address of a web server without what stands after its host, ``https://ops.example.com``."""
    value = os.environ.get(name, default).rstrip("/")
    if value and not re.fullmatch(r"https?://[^\s/?#@]+", value):
        raise ImproperlyConfigured(
            f"{name} is {value!r}; it must be an address like https://ops.example.com."
        )
    return value


def full_address(name: str) -> str:
    """Return a web address with its path, empty where none is set; no message quotes it."""
    value = os.environ.get(name, "")
    if value and not re.fullmatch(r"https?://[^\s/?#@]+(/\S*)?", value):
        raise ImproperlyConfigured(f"{name} must be an address like https://watch.example.com/ping/….")
    return value


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail goes; without a host there is none."""

    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    starttls: bool = False
    implicit_tls: bool = False


def mail_server(name: str) -> MailServer:
    """Return the mail server of ``smtp://user:password@host:port?tls=starttls|implicit|none``.

    ``tls`` is ``starttls`` where it is not given; the port is 587, with ``implicit`` 465, with ``none`` 25.
    """
    url = os.environ.get(name)
    if not url:
        return MailServer()
    ports = {"starttls": 587, "implicit": 465, "none": 25}
    # Neither message quotes the value: it may hold a password.
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} has a host or a port that is none.") from None
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    tls = query.pop("tls", "starttls")
    if parts.scheme != "smtp" or not parts.hostname or parts.path.strip("/") or query or tls not in ports:
        raise ImproperlyConfigured(
            f"{name} must be smtp://user:password@host:port?tls=starttls, =implicit or =none."
        )
    return MailServer(
        host=parts.hostname,
        port=port or ports[tls],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        starttls=tls == "starttls",
        implicit_tls=tls == "implicit",
    )


def mail_address(name: str, default: str) -> str:
    """Return an address to send mail from, such as ``GuardOps <guardops@example.com>``."""
    value = os.environ.get(name, default)
    address = parseaddr(value)[1]
    try:
        EmailValidator(allowlist=["localhost"])(address)
    except ValidationError:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be an e-mail address.") from None
    if any(char in value for char in "\r\n"):
        raise ImproperlyConfigured(f"{name} must be one line.")
    return value


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
