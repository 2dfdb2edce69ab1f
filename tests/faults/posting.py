"""Clients that post runs to a gate which may die at any moment, and remember what it acknowledged."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any

from tests.gate_process import GateProcess
from tests.runs.ingest.wire import make_event, make_heartbeat, make_started

GIVE_UP_SECONDS = 120.0


def make_post(place: int, runs: int = 3) -> list[dict[str, Any]]:
    """Return the events of one post; the runs know their post and place by their agent."""
    now = datetime.now(UTC)
    return [
        make_event(
            ended_at=now,
            agent=f"{place}/{number}",
            steps=number,
            halt_reason="no_progress" if number else None,
        )
        for number in range(runs)
    ]


def make_mixed_posts(count: int) -> list[list[dict[str, Any]]]:
    """Return posts of runs that ended, each with signs of life of a run that the next one ends.

    And each with the start of a run that ends in none: its agent is ``live/<place>``.
    """
    posts = [make_post(place) for place in range(count)]
    ending = [events[0]["run_id"] for events in posts]
    for place, events in enumerate(posts):
        run_id = ending[(place + 1) % count]
        now = datetime.now(UTC)
        events += [
            make_started(run_id=run_id, started_at=now),
            make_heartbeat(run_id=run_id, at=now),
            make_started(started_at=now, agent=f"live/{place}"),
        ]
    return posts


class Posting:
    """Posts bodies from several connections, each again until it is acknowledged."""

    def __init__(self, gate: GateProcess, key: str, clients: int = 8, *, keep_alive: bool = True) -> None:
        self.acknowledged: set[int] = set()
        self.answers: Counter[int] = Counter()  # by status; 0 = the connection broke
        self.retry_after: set[str | None] = set()  # of the answers that asked to come back
        self.slowest = 0.0
        self._gate = gate
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        if not keep_alive:
            self._headers["Connection"] = "close"
        self._clients = clients
        self._noted = threading.Condition()

    def post_all(
        self, posts: Sequence[list[dict[str, Any]]], *, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Post all, and call ``meanwhile`` beside it; returns when every post is acknowledged."""
        waiting: SimpleQueue[tuple[int, bytes]] = SimpleQueue()
        for place, events in enumerate(posts):
            waiting.put((place, json.dumps(events).encode()))
        clients = [threading.Thread(target=self._work, args=(waiting,)) for _ in range(self._clients)]
        for client in clients:
            client.start()
        meanwhile()
        for client in clients:
            client.join()
        assert len(self.acknowledged) == len(posts), self.answers

    def wait_for(self, count: int) -> None:
        """Return when ``count`` posts are acknowledged."""
        with self._noted:
            assert self._noted.wait_for(lambda: len(self.acknowledged) >= count, GIVE_UP_SECONDS), (
                self.answers
            )

    def _work(self, waiting: SimpleQueue[tuple[int, bytes]]) -> None:
        client = http.client.HTTPConnection(*self._gate.address, timeout=30)  # opens itself again
        while True:
            try:
                place, body = waiting.get_nowait()
            except Empty:
                return client.close()
            give_up = time.monotonic() + GIVE_UP_SECONDS
            while not self._note(place, *self._post(client, body)) and time.monotonic() < give_up:
                pass

    def _note(self, place: int, status: int, asked: str | None) -> bool:
        """Remember an answer; wait as it asks, for a shorter time, where it is no acknowledgement."""
        with self._noted:
            self.answers[status] += 1
            if status == 200:
                self.acknowledged.add(place)
                self._noted.notify_all()
                return True
            if status in {429, 503}:
                self.retry_after.add(asked)
        time.sleep(float(asked) / 4 if asked else 0.02)
        return False

    def _post(self, client: http.client.HTTPConnection, body: bytes) -> tuple[int, str | None]:
        began = time.monotonic()
        try:
            client.request("POST", "/api/v1/events", body, self._headers)
            response = client.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            client.close()
            return 0, None
        self.slowest = max(self.slowest, time.monotonic() - began)
        return response.status, response.headers["Retry-After"]


def agents(posts: Iterable[list[dict[str, Any]]]) -> list[str]:
    """Return the agents of the runs that ended."""
    return sorted(event["agent"] for events in posts for event in events if event["type"] == "run.ended")
