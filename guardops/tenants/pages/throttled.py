"""What every page says to who tries too fast."""

from __future__ import annotations

import math
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from guardops.tenants.client_address import client_address
from guardops.tenants.errors import TooManyTries
from guardops.tenants.throttle import Guess, Try, take_try


def try_of(request: HttpRequest, guess: Guess, name: str) -> Try:
    """Count a try of the request's client; raises TooManyTries."""
    return take_try(guess, name=name, address=client_address(request), now=timezone.now())


def too_many(request: HttpRequest, error: TooManyTries, **back: str) -> HttpResponse:
    """Answer 429 with when to try again; ``back`` is the query of the link back to the page."""
    seconds = max(1, math.ceil((error.until - timezone.now()).total_seconds()))
    query = urlencode({name: value for name, value in back.items() if value})
    link = f"{request.path}?{query}" if query else request.path
    response = render(request, "429.html", {"until": error.until, "back": link}, status=429)
    response["Retry-After"] = str(seconds)
    response["Cache-Control"] = "no-store"
    return response
