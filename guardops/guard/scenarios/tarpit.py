"""A real tarpit on loopback: a small web site whose mirror offers a next page for ever and never says
anything.

The server answers for every host name: ``good<n>.example`` hosts hold one fact each, every other host is
the mirror. ``Loopback`` is an httpx transport that sends all requests there, whatever host they name, so
that a scripted agent sees ordinary addresses while nothing leaves the machine.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import httpx

LOOPBACK = "127.0.0.1"
MIRROR = "tarpit-mirror.example"
FILLER = 12
"""Sentences on a mirror's page."""

_GOOD = re.compile(r"^(?P<name>[a-z]+)-(?P<number>\d+)\.example$")
_WORDS = (
    "options",
    "are",
    "listed",
    "on",
    "further",
    "pages",
    "of",
    "this",
    "mirror",
    "which",
    "were",
    "moved",
)


class Tarpit:
    """The running server; ``port`` is on loopback. Made by ``serving``."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port: int = server.server_address[1]


@contextmanager
def serving() -> Iterator[Tarpit]:
    """Serve the site on a free port of loopback until the block ends."""
    server = ThreadingHTTPServer((LOOPBACK, 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="tarpit", daemon=True)
    thread.start()
    try:
        yield Tarpit(server)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Loopback(httpx.BaseTransport):
    """Sends every request to ``port`` on loopback and keeps the host it names in the Host header."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._inner = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        sent = httpx.Request(
            request.method,
            request.url.copy_with(scheme="http", host=LOOPBACK, port=self._port),
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return self._inner.handle_request(sent)

    def close(self) -> None:
        self._inner.close()


class Page(HTMLParser):
    """What a reader gets out of a page: the facts it states and the link to the next page, if any."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.facts: list[str] = []
        self.next: str | None = None
        self._in_fact = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self._in_fact = tag == "dfn"
        if tag == "a" and named.get("rel") == "next":
            self.next = named.get("href")

    def handle_data(self, data: str) -> None:
        if self._in_fact:
            self.facts.append(data)
            self._in_fact = False


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "Tarpit"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").partition(":")[0]
        known = _GOOD.match(host)
        body = (
            _good_page(known["name"], int(known["number"])) if known else _mirror_page(self.path)
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Say nothing: the caller's terminal shows progress."""


def _good_page(name: str, number: int) -> str:
    fact = f"{name} fact {number}"
    return f"<!doctype html><title>{fact}</title><p>It is known that <dfn>{fact}</dfn>.</p>"


def _mirror_page(path: str) -> str:
    """A page like no other before it, with nothing on it, and one more to come."""
    parts = urlsplit(path)
    given = parse_qs(parts.query).get("page", ["1"])[0]
    page = int(given) if given.isdecimal() else 1
    sentences = "".join(f"<p>{_sentence(parts.path, page, index)}</p>" for index in range(FILLER))
    link = f'<a rel="next" href="{parts.path}?page={page + 1}">More results on page {page + 1}</a>'
    return f"<!doctype html><title>Options, page {page}</title>{sentences}{link}"


def _sentence(path: str, page: int, index: int) -> str:
    digest = sha256(f"{path} {page} {index}".encode()).digest()
    return " ".join(_WORDS[byte % len(_WORDS)] for byte in digest[:14])
