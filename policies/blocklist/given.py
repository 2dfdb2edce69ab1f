"""What somebody wants blocked, line by line: names as they are typed, or a table of the blocklist's own form.

A line that makes no sense is refused by itself, with the reason; the others are none the worse for it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db.models import TextChoices
from django.urls import Resolver404, resolve
from django.utils import timezone

from guardops.export import text_of_cell
from guardops.guard.policy import BOUNDS
from policies.choices import BlockAction, Origin, SourceKind
from policies.errors import InvalidSource
from policies.models.sources import MAX_NOTE, MAX_REASON
from policies.publish.sources import Wanted

MAX_LINES = 1_000
MAX_EVIDENCE = 500
LATEST = datetime(2200, 1, 1, tzinfo=UTC)  # what every zone can show
MOST = int(BOUNDS["domain_cap"][1])
EXACT = {"registrable": False, "exact": True}
"""How a domain is matched: with everything below its registrable domain, or as this host alone."""

READ = ("name", "kind", "match", "action", "most", "reason", "note", "origin", "evidence", "expires_at")
"""Columns that a table may have; of those that are missing, or empty, the form decides."""

Choice = TypeVar("Choice", bound=TextChoices)


class InvalidTable(InvalidSource):
    """A file that is no table of sources at all, or too long a one."""


@dataclass(frozen=True, slots=True)
class Given:
    """One line, and what it wants; ``error`` where that can't be read."""

    number: int
    text: str
    wanted: Wanted | None = None
    error: InvalidSource | None = None


def given_by_lines(text: str, like: Wanted) -> list[Given]:
    """Read names, one a line; all else is as in ``like``. Raises InvalidTable for too many lines."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    _check_length(len(lines))
    return [Given(number, line, replace(like, name=line)) for number, line in lines]


def given_by_table(text: str, like: Wanted, now: datetime) -> list[Given]:
    """Read a table with a line of column names, one of them ``name``; columns of other names say nothing.

    Raises InvalidTable where it is none, or too long.
    """
    try:
        rows = [row for row in _rows(text) if any(row.values())]
    except csv.Error as error:
        raise InvalidTable(f"This is no CSV file: {error}.", code="no_table") from None
    _check_length(len(rows))
    return [_given(number, row, like, now) for number, row in enumerate(rows, start=2)]


def evidence_path(text: str) -> str:
    """Return ``text`` where it is the address of a page of ours; raises InvalidSource for any other.

    It becomes a link, so what isn't ours has no place in it.
    """
    path = text.partition("?")[0]
    try:
        ours = text.isascii() and text.isprintable() and len(text) <= MAX_EVIDENCE and bool(resolve(path))
    except Resolver404:
        ours = False
    if text and (not ours or text.startswith("//") or "\\" in text):
        raise InvalidSource("The evidence is no page of GuardOps.", code="no_evidence")
    return text


def _check_length(lines: int) -> None:
    if not lines:
        raise InvalidTable("There is no line in it.", code="no_lines")
    if lines > MAX_LINES:
        raise InvalidTable(
            f"At most {MAX_LINES:,} lines at once; these are {lines:,}. Send the rest afterwards.",
            code="too_many_lines",
        )


def _rows(text: str) -> Iterator[dict[str, str]]:
    header, _, _ = text.partition("\n")
    if "\0" in text:
        raise InvalidTable("The file holds NUL characters.", code="no_table")
    # Spreadsheets of half the world write semicolons.
    delimiter = ";" if header.count(";") > header.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    columns = [column.strip().lower() for column in next(reader, [])]
    if "name" not in columns:
        raise InvalidTable("The first line names the columns, and none is “name”.", code="no_table")
    for cells in reader:
        yield {
            column: text_of_cell(cell) for column, cell in zip(columns, cells, strict=False) if column in READ
        }


def _given(number: int, row: Mapping[str, str], like: Wanted, now: datetime) -> Given:
    name = row.get("name", "")
    try:
        return Given(number, name, _wanted(row, like, now))
    except InvalidSource as error:
        return Given(number, name, error=error)


def _wanted(row: Mapping[str, str], like: Wanted, now: datetime) -> Wanted:
    said: dict[str, Any] = {
        name: value for name, value in row.items() if value and name in ("reason", "note")
    }
    if len(said.get("reason", "")) > MAX_REASON or len(said.get("note", "")) > MAX_NOTE:
        raise InvalidSource(
            f"A reason has at most {MAX_REASON} characters, a note {MAX_NOTE:,}.", code="too_long"
        )
    kind = _choice(SourceKind, row.get("kind", ""), like.kind)
    action = _choice(BlockAction, row.get("action", ""), like.action)
    return replace(
        like,
        **said,
        name=row.get("name", ""),
        kind=kind,
        exact=_exact(row.get("match", ""), like.exact) and kind == SourceKind.DOMAIN,
        action=action,
        most=_most(row.get("most", ""), like.most) if action == BlockAction.LIMIT else 0,
        origin=_choice(Origin, row.get("origin", ""), like.origin),
        evidence=evidence_path(row.get("evidence", "")) or like.evidence,
        expires_at=_expiry(row["expires_at"], now) if row.get("expires_at") else like.expires_at,
    )


def _choice(choices: type[Choice], text: str, otherwise: Choice) -> Choice:
    try:
        return choices(text.strip().lower()) if text.strip() else otherwise
    except ValueError:
        raise InvalidSource(
            f"{choices.__name__} is one of {', '.join(choices.values)}.", code="no_choice"
        ) from None


def _exact(text: str, otherwise: bool) -> bool:
    if text.strip().lower() in ("", *EXACT):
        return EXACT.get(text.strip().lower(), otherwise)
    raise InvalidSource("The match is registrable or exact.", code="no_choice")


def _most(text: str, otherwise: int) -> int:
    if not text.strip():
        return otherwise
    if text.strip().isdecimal() and len(text.strip()) < 10 and int(text) <= MOST:
        return int(text)
    raise InvalidSource(f"The most calls a run are a number from 0 to {MOST:,}.", code="no_number")


def _expiry(text: str, now: datetime) -> datetime:
    try:
        moment = datetime.fromisoformat(text.strip())
        if timezone.is_naive(moment):
            moment = moment.replace(tzinfo=now.tzinfo)
        moment = moment.astimezone(UTC)  # the database knows no offset of half a second
    except (ValueError, OverflowError):
        raise InvalidSource("The expiry is no time such as 2027-01-31T12:00Z.", code="no_time") from None
    if moment <= now:
        raise InvalidSource("It would be over already.", code="over")
    if moment >= LATEST:
        raise InvalidSource("The expiry is too far away; stay before the year 2200.", code="no_time")
    return moment
