"""Which site a URL belongs to, and which listing: the keys that source and listing caps count by.

Source of the suffixes: the public suffix list with its private section, so that one page on a shared host is
not everybody's.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

import idna
from msgspec import Struct
from publicsuffixlist import PublicSuffixList

PAGE_KEYS = frozenset({"page", "p", "offset", "start", "cursor", "after", "limit"})
"""Query and argument names that only say which page of a listing is wanted."""

MAX_HOST = 253
_MAX_URL = 8_192
_MAX_DEPTH = 32
_CONTAINERS = frozenset({dict, list, tuple})
_LEAVES = frozenset({int, float, bool, type(None)})
_NUMERIC_LABEL = re.compile(r"(?:\d+|0x[0-9a-f]*)\Z")


def registrable_domain(host: str) -> str | None:
    """Return the registrable domain of ``host`` as A-labels in lower case.

    None for an IP address, for a public suffix itself, for a name without a dot and for what is no host name.
    The result given again gives itself.
    """
    name = normal_host(host)
    if name is None or _is_ip(name):
        return None
    return _private_suffix(name)


def source_name(host: str) -> str | None:
    """Return the name that calls to ``host`` are counted under.

    That is the registrable domain, else the IP address or the host as it is; None for what is no host.
    """
    name = normal_host(host)
    if name is None:
        return None
    return name if _is_ip(name) else _private_suffix(name) or name


@lru_cache(maxsize=4_096)
def normal_host(host: str) -> str | None:
    """Return a host in its one spelling: A-labels, lower case, no final dot, addresses in canonical form."""
    name = unquote(host).strip().strip("[]").rstrip(".").lower()
    if not name or len(name) > 4 * MAX_HOST:
        return None
    if address := _address(name):
        return address
    try:
        name = idna.encode(name, uts46=True, transitional=False).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        if not name.isascii() or not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", name):
            return None
    if len(name) > MAX_HOST:
        return None
    return _address(name) or name


def split_url(text: str) -> SplitResult | None:
    """Return the parts of an http(s) URL, or None for any other text."""
    if len(text) > _MAX_URL or text[:4].lower() != "http":
        return None
    try:
        # A browser reads a backslash as a slash, so that is where the host ends.
        parts = urlsplit(text.replace("\\", "/"))
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        return parts if valid else None
    except ValueError:
        return None


class Place(Struct, frozen=True):
    """Where an http(s) URL points: its host, its source, its listing and the page keys that name the page."""

    host: str
    source: str
    listing: str
    page: tuple[tuple[str, str], ...]


@lru_cache(maxsize=4_096)
def place_of(url: str) -> Place | None:
    """Return where an http(s) URL points, or None for any other text."""
    parts = split_url(url.strip())
    host = normal_host(parts.hostname) if parts is not None and parts.hostname else None
    if parts is None or host is None:
        return None
    query = parse_qsl(parts.query, keep_blank_values=True) if parts.query else []
    rest = [(name, value) for name, value in query if name.lower() not in PAGE_KEYS]
    page = tuple((name, value) for name, value in query if name.lower() in PAGE_KEYS)
    port = f":{parts.port}" if parts.port else ""
    tail = f"?{urlencode(rest, errors='backslashreplace')}" if rest else ""
    bracketed = f"[{host}]" if ":" in host else host
    listing = f"{parts.scheme}://{bracketed}{port}{parts.path or '/'}{tail}"
    return Place(host, source_name(host) or host, listing, page)


def source_of(url: str) -> str | None:
    """Return the source that an http(s) URL is counted under, or None for any other text."""
    place = place_of(url)
    return place.source if place else None


def listing_key(url: str) -> str | None:
    """Return an http(s) URL without its page keys and fragment, or None for any other text."""
    place = place_of(url)
    return place.listing if place else None


def urls_in(args: Mapping[str, Any]) -> list[str]:
    """Return every argument text, at any depth, that may be an http(s) URL by its first letters."""
    found: list[str] = []
    _collect(args, found, 0)
    return found


def _collect(value: Any, found: list[str], depth: int) -> None:
    for item in value.values() if type(value) is dict or isinstance(value, Mapping) else value:
        kind = type(item)
        if kind is str:
            first = item[:1]
            if first == "h" or first == "H" or first.isspace():
                text = item.strip()
                if text[:4].lower() == "http":
                    found.append(text)
        elif depth < _MAX_DEPTH and (
            kind in _CONTAINERS or (kind not in _LEAVES and isinstance(item, Mapping))
        ):
            _collect(item, found, depth + 1)


def _address(name: str) -> str | None:
    """Return the canonical form of an IP address in any spelling that a client would accept."""
    if ":" in name:
        try:
            return str(ipaddress.ip_address(name.partition("%")[0]))
        except ValueError:
            return None
    if not _NUMERIC_LABEL.search(name.rpartition(".")[2]):
        return None
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except (OSError, ValueError):  # a null character or half a surrogate pair is a ValueError
        return None


def _is_ip(name: str) -> bool:
    return ":" in name or bool(_NUMERIC_LABEL.match(name.rpartition(".")[2]))


@lru_cache(maxsize=4_096)
def _private_suffix(name: str) -> str | None:
    found = _suffixes().privatesuffix(name)
    return found if isinstance(found, str) else None


@lru_cache(maxsize=1)
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()
