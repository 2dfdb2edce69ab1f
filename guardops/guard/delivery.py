"""Brings records to the gate, gzipped, and tells what is refused for good from what is not."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TypeVar

import httpx
import msgspec

from guardops.guard.replies import EventResult, EventsReply, ResultStatus
from guardops.guard.retry_after import seconds_to_wait
from guardops.guard.summary import VERSION

EVENTS_PATH = "/api/v1/events"
DENIED_SECONDS = 300.0
"""How long a refused key waits: the events are kept, and somebody may mend the key."""
MAX_RETRY_AFTER = 3_600.0
_TIMEOUT = httpx.Timeout(15.0, connect=5.0)
_DENIED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_REFUSED = frozenset({HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY})

_log = logging.getLogger("guardops.guard")
_T = TypeVar("_T")


class NotNow(Exception):
    """Nothing was delivered, but may be later: in ``wait`` seconds, or, with None, after a back-off."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class _Refusal(msgspec.Struct):
    """The part of a problem document that names what was refused."""

    results: list[EventResult] = []


class _Identity(msgspec.Struct):
    """What a log line may say of an event."""

    type: str = ""
    run_id: str | None = None
    external_id: str | None = None


class Delivery:
    """Posts records with one key. For one thread at a time; it connects when it is first needed."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        transport: httpx.BaseTransport | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._url = url.rstrip("/") + EVENTS_PATH
        self._key = key
        self._transport = transport
        self._now = now
        self._client: httpx.Client | None = None

    def deliver(self, records: Sequence[bytes]) -> None:
        """Post records (JSON, one event each), and return once the gate has taken or refused every one.

        What it refuses for good is named in the log. Raises :class:`NotNow` where the gate can't be reached,
        is busy, or does not take the key; some of the records may have been stored, and are duplicates then.
        """
        response = self._post(b"[" + b",".join(records) + b"]")
        if response.status_code == HTTPStatus.OK:
            self._note(_decoded(response, EventsReply).results, records)
        elif response.status_code in _REFUSED:
            self._narrow_down(response, records)
        else:
            raise self._not_now(response)

    def _narrow_down(self, response: httpx.Response, records: Sequence[bytes]) -> None:
        """Find out which records a refused request was refused for."""
        if response.status_code == HTTPStatus.UNPROCESSABLE_ENTITY:
            refused = _decoded(response, _Refusal).results
            if {result.index for result in refused} == set(range(len(records))):
                return self._note(refused, records)
        if len(records) == 1:
            return _log.error("The gate refused %s: HTTP %d.", _named(records[0]), response.status_code)
        middle = len(records) // 2
        self.deliver(records[:middle])
        return self.deliver(records[middle:])

    def _note(self, results: Sequence[EventResult], records: Sequence[bytes]) -> None:
        for result in results:
            if result.status in (ResultStatus.REJECTED, ResultStatus.CONFLICT) and result.index < len(
                records
            ):
                _log.error(
                    "The gate refused %s: %s %s%s.",
                    _named(records[result.index]),
                    result.status.value,
                    result.code,
                    f" in {result.field}" if result.field else "",
                )

    def _not_now(self, response: httpx.Response) -> NotNow:
        status = response.status_code
        if status in _DENIED:
            return NotNow(f"the key was refused (HTTP {status})", DENIED_SECONDS)
        asked = seconds_to_wait(response.headers.get("Retry-After"), self._now())
        return NotNow(f"HTTP {status}", None if asked is None else min(asked, MAX_RETRY_AFTER))

    def _post(self, body: bytes) -> httpx.Response:
        if self._client is None:
            self._client = httpx.Client(
                timeout=_TIMEOUT,
                transport=self._transport,
                verify=self._url.startswith("https:"),  # else the authorities' keys would be read for nothing
                headers={
                    "Authorization": f"Bearer {self._key}",
                    "Content-Type": "application/json",
                    "Content-Encoding": "gzip",
                    "User-Agent": f"guardops-guard/{VERSION}",
                },
            )
        try:
            return self._client.post(self._url, content=gzip.compress(body, compresslevel=5))
        except httpx.HTTPError as error:
            raise NotNow(type(error).__name__) from error

    def close(self) -> None:
        """Close the connection; the next record opens another."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def after_fork(self) -> None:
        """In a forked child: leave the connection to the parent."""
        self._client = None


def _decoded(response: httpx.Response, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(response.content, type=kind)
    except msgspec.MsgspecError as error:
        raise NotNow("the answer is none that a gate gives") from error


def _named(record: bytes) -> str:
    """Return an event's type and id, and nothing else of it."""
    try:
        known = msgspec.json.decode(record, type=_Identity)
    except msgspec.MsgspecError:
        return "an event"
    return f"{known.type} {known.external_id or known.run_id or ''}".strip()
