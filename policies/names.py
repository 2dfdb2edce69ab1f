"""The one spelling of a source's name, and which names nobody may block."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address

from guardops.guard.domains import normal_host, place_of, registrable_domain
from guardops.tenants.models import Organisation

from .choices import SourceKind
from .errors import InvalidSource

MAX_TOOL = 128


def allowed_domains(organisation: Organisation | None) -> frozenset[str]:
    """Return the hosts that a list may not block: an organisation's own and allowed ones, or everybody's."""
    if organisation is not None:
        return frozenset(organisation.allowed_domains)
    listed = Organisation.objects.exclude(allowed_domains=[]).values_list("allowed_domains", flat=True)
    return frozenset(host for hosts in listed for host in hosts)


def canonical_source(kind: SourceKind, name: str, *, exact: bool, allowed: Collection[str] = ()) -> str:
    """Return a source's name as guards compare it: a tool's as it is, a domain as A-labels in lower case.

    A domain may be given as a URL. Without ``exact`` it is the registrable domain of what is given. Raises
    InvalidSource: ``no_name``, ``no_domain``, ``ip_address``, ``public_suffix``, or ``own_domain`` for an
    allowed host, what is below one, and what would block one.
    """
    if kind == SourceKind.TOOL:
        tool = name.strip()
        if not tool or len(tool) > MAX_TOOL or not tool.isprintable():
            raise InvalidSource(f"Name a tool, in at most {MAX_TOOL} characters.", code="no_name")
        return tool
    place = place_of(name)
    host = place.host if place else normal_host(name)
    if host is None or ("." not in host and ":" not in host):
        raise InvalidSource("This is no domain.", code="no_domain")
    if _is_address(host):
        raise InvalidSource("IP addresses are not blocked: they change hands.", code="ip_address")
    domain = registrable_domain(host)
    if domain is None:
        raise InvalidSource(
            "This is a public suffix: everybody below it would be blocked.", code="public_suffix"
        )
    blocked = host if exact else domain
    if any(_is_within(blocked, own) or (not exact and _is_within(own, blocked)) for own in allowed):
        raise InvalidSource(
            "The organisation's list of allowed domains has this, or a part of it.", code="own_domain"
        )
    return blocked


def _is_within(host: str, domain: str) -> bool:
    return host == domain or host.endswith(f".{domain}")


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
