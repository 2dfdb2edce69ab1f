"""Posts events to a gate over HTTP, at least once: what the gate has it answers as a duplicate."""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import httpx
import msgspec

from guardops.guard.events import MAX_BODY_BYTES, MAX_EVENTS, WorkRefused
from guardops.guard.replies import EventResult, EventsReply, Problem, ResultStatus
from guardops.guard.wire import Event

EVENTS_PATH = "/api/v1/events"
ATTEMPTS = 12
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
TIMEOUT_S = 60.0
RETRIED = frozenset({408, 429, 502, 503, 504})
EVERY_EVENT_REJECTED = 422
_SAMPLES = 20


class SendFailed(RuntimeError):
    """The gate refused a whole request, with ``status``, or could not be reached; the text says why."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class _Results(msgspec.Struct):
    """The part that a reply and the problem document of 422 share."""

    results: list[EventResult] = []


@dataclass
class Tally:
    """What became of the events so far. ``complaints`` names the first rejected and conflicting ones."""

    accepted: int = 0
    duplicates: int = 0
    sanitized: int = 0
    conflicts: int = 0
    rejected: int = 0
    requests: int = 0
    retries: int = 0
    complaints: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether the gate holds every event as it was sent."""
        return not (self.rejected or self.conflicts)

    def __str__(self) -> str:
        return (
            f"{self.accepted:,} accepted, {self.duplicates:,} duplicates, {self.sanitized:,} sanitized, "
            f"{self.conflicts:,} conflicts, {self.rejected:,} rejected; "
            f"{self.requests:,} requests, {self.retries:,} retries."
        )

    def note(self, result: EventResult, event: Event) -> None:
        if result.status is ResultStatus.SANITIZED:
            self.sanitized += 1
        elif result.status is ResultStatus.CONFLICT:
            self.conflicts += 1
            self._complain(result, event)
        elif result.status is ResultStatus.REJECTED:
            self.rejected += 1
            self._complain(result, event)

    def _complain(self, result: EventResult, event: Event) -> None:
        if len(self.complaints) < _SAMPLES:
            place = f" in {result.field}" if result.field else ""
            named = event.refusal_id if isinstance(event, WorkRefused) else event.run_id
            self.complaints.append(f"{named}: {result.status} {result.code}{place} {result.message}".rstrip())


class Sender:
    """Sends events in as few requests as the gate's limits allow; use it as a context manager."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        attempts: int = ATTEMPTS,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.tally = Tally()
        self._sleep = sleep
        self._jitter = jitter
        self._attempts = attempts
        self._client = httpx.Client(
            base_url=url,
            timeout=timeout_s,
            transport=transport,
            trust_env=False,
            headers={
                "Authorization": f"Bearer {key}",
                "Content-Type": "application/json",
                "Content-Encoding": "gzip",
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def send(self, events: Iterable[Event], on_sent: Callable[[int], None] = lambda count: None) -> Tally:
        """Send all ``events`` and return the tally; ``on_sent`` hears how many each request settled.

        Raises ``SendFailed`` where the gate refuses a request as a whole or stays unreachable.
        """
        for batch, body in _bodies(events):
            self._settle(batch, self._post(body))
            on_sent(len(batch))
        return self.tally

    def _settle(self, batch: list[Event], response: httpx.Response) -> None:
        self.tally.requests += 1
        try:
            if response.status_code == EVERY_EVENT_REJECTED:
                results = msgspec.json.decode(response.content, type=_Results).results
            else:
                reply = msgspec.json.decode(response.content, type=EventsReply)
                self.tally.accepted += reply.accepted
                self.tally.duplicates += reply.duplicates
                results = reply.results
        except msgspec.MsgspecError as error:
            raise SendFailed(f"The answer of {response.url} is none that a gate gives: {error}") from error
        for result in results:
            self.tally.note(result, batch[result.index])

    def _post(self, body: bytes) -> httpx.Response:
        problem = "no attempt was made"
        for attempt in range(self._attempts):
            if attempt:
                self.tally.retries += 1
            wait = self._back_off(attempt)
            try:
                response = self._client.post(EVENTS_PATH, content=body)
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if response.status_code in {200, EVERY_EVENT_REJECTED}:
                    return response
                problem = _problem(response)
                if response.status_code not in RETRIED:
                    raise SendFailed(f"{response.url} refused the request: {problem}", response.status_code)
                asked = retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
                wait = wait if asked is None else min(asked, LONGEST_WAIT_S)
            if attempt < self._attempts - 1:
                self._sleep(wait)
        raise SendFailed(
            f"{self._client.base_url} took nothing in {self._attempts} attempts; the last: {problem}"
        )

    def _back_off(self, attempt: int) -> float:
        longest: float = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2**attempt)
        return longest * (0.5 + self._jitter() / 2)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, a number or a date; None for neither."""
    if not value:
        return None
    if value.strip().isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _problem(response: httpx.Response) -> str:
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.MsgspecError:
        return f"HTTP {response.status_code}"
    return f"HTTP {response.status_code} {problem.code}: {problem.detail or problem.title}"


def _bodies(events: Iterable[Event]) -> Iterator[tuple[list[Event], bytes]]:
    """Yield batches of at most ``MAX_EVENTS`` and ``MAX_BODY_BYTES``, each with its gzipped JSON array."""
    encoder = msgspec.json.Encoder()
    batch: list[Event] = []
    parts: list[bytes] = []
    size = 2
    for event in events:
        part = encoder.encode(event)
        if batch and (len(batch) == MAX_EVENTS or size + len(part) + 1 > MAX_BODY_BYTES):
            yield batch, _array(parts)
            batch, parts, size = [], [], 2
        batch.append(event)
        parts.append(part)
        size += len(part) + 1
    if batch:
        yield batch, _array(parts)


def _array(parts: list[bytes]) -> bytes:
    return gzip.compress(b"[" + b",".join(parts) + b"]", compresslevel=1, mtime=0)
