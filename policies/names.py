"""The one spelling of a source's name, and which names nobody may block."""

from __future__ import annotations

from ipaddress import ip_address

from guardops.guard.domains import normal_host, place_of, registrable_domain
from guardops.tenants.models import Organisation

from .choices import SourceKind
from .errors import InvalidSource

MAX_TOOL = 128


def canonical_source(kind: SourceKind, name: str, *, exact: bool, organisation: Organisation | None) -> str:
    """Return a source's name as guards compare it: a tool's as it is, a domain as A-labels in lower case.

    A domain may be given as a URL. Without ``exact`` it is the registrable domain of what is given. Raises
    InvalidSource: ``no_name``, ``no_domain``, ``ip_address``, ``public_suffix``, or ``own_domain`` for what
    the organisation has put on its list of its own and allowed domains.
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
    if organisation is not None and domain in organisation.allowed_domains:
        raise InvalidSource("This is on the organisation's list of allowed domains.", code="own_domain")
    return host if exact else domain


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
