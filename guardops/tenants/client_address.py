"""Where a request came from, as far as that can be trusted."""

from __future__ import annotations

import ipaddress

from django.conf import settings
from django.http import HttpRequest

_SITE = 64  # bits of an IPv6 address that a subscriber does not choose


def client_address(request: HttpRequest) -> str:
    """Return the address that a client's tries are counted by; of IPv6 the /64, which is one subscriber's.

    Behind a proxy that is the last entry of X-Forwarded-For, the one that the proxy itself wrote: whatever
    stands before it was sent by the client. Without a proxy the header is anybody's word and is not read.
    """
    peer = request.META.get("REMOTE_ADDR") or ""
    if settings.BEHIND_PROXY:
        named = request.META.get("HTTP_X_FORWARDED_FOR", "").rpartition(",")[2].strip()
        return _counted(named) or _counted(peer) or peer
    return _counted(peer) or peer


def _counted(text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), _SITE), strict=False))
    return str(address)
