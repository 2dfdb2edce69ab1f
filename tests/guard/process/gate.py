"""A gate in memory for tests of the reporter: answers as told and remembers what it took."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import httpx

Answer = Callable[[list[dict[str, Any]]], httpx.Response]


def takes(events: list[dict[str, Any]], *results: dict[str, Any]) -> httpx.Response:
    """Return the reply that everything was taken, ``results`` excepted."""
    reply = {"accepted": len(events) - len(results), "duplicates": 0, "results": list(results)}
    return httpx.Response(200, json=reply)


class Gate:
    """Answers by ``answer``; ``requests`` are the events of each request, ``headers`` the last one's."""

    def __init__(self) -> None:
        self.answer: Answer = takes
        self.requests: list[list[dict[str, Any]]] = []
        self.headers = httpx.Headers()
        self.taken: list[dict[str, Any]] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        events = json.loads(gzip.decompress(request.content))
        self.requests.append(events)
        self.headers = request.headers
        answer = self.answer(events)
        if answer.status_code == 200:
            refused = {result["index"] for result in answer.json()["results"]}
            self.taken += [event for index, event in enumerate(events) if index not in refused]
        return answer

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.handle)

    def says(self, status: int, **headers: str) -> None:
        """Answer every request with a status."""
        self.answer = lambda events: httpx.Response(status, headers=headers, json={})
