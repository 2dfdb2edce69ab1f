"""Lists as CSV files: streamed, safe to open in a spreadsheet, honest about where they end.

RFC 4180 in UTF-8, one record a line: what breaks a line, or shows as nothing, is written ⟦U+000A⟧. Text that
a spreadsheet would run as a formula begins with an apostrophe; numbers stay numbers. Times are in UTC.
"""

from __future__ import annotations

import csv
import io
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.template import loader
from django.utils.http import content_disposition_header

from guardops.shown import from_visible, is_unseen, named

Cell: TypeAlias = str | int | float | Decimal | datetime | UUID | None
"""What a cell may hold; a bool is written ``yes`` or ``no``, None as nothing."""

MAX_ROWS = 1_000_000  # a spreadsheet takes 1,048,576
RETRY_AFTER_S = 15

_PART = 64 * 1024  # characters that are sent at once
_FORMULA = frozenset("=+-−@|%")
_HARMLESS = re.compile(r"(?:[A-Za-z0-9$#(/_.:*][\x20-\x7e]*)?")
_under_way: set[object] = set()
"""The exports that this process is sending; each holds a thread for as long as its reader takes."""


def csv_cell(value: Cell) -> str:
    """Return what stands in the file for ``value``, before quoting."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):
        return f"{value:f}" if value.is_finite() else csv_text(str(value))
    if isinstance(value, int | float):
        return str(value) if math.isfinite(value) else csv_text(str(value))
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return csv_text(str(value))


def csv_text(text: str) -> str:
    """Return text that others wrote with nothing unseen in it, and so that no spreadsheet runs it."""
    if _HARMLESS.fullmatch(text):
        return text
    seen = "".join(named(char) if is_unseen(char) or char in "\n\t" else char for char in text)
    return f"'{seen}" if _may_run(text) else seen


def text_of_cell(cell: str) -> str:
    """Return the text that ``csv_text`` wrote so: no apostrophe before a formula, the unseen as it was."""
    text = from_visible(cell.replace(named("\n"), "\n").replace(named("\t"), "\t"))
    bare = text[1:]
    return bare if text.startswith("'") and bare and _may_run(bare) else text


def _may_run(text: str) -> bool:
    # Spreadsheets skip what stands before a formula and read the wide forms of its first character too.
    first = next((char for char in text if not (char.isspace() or is_unseen(char))), "")
    return text[0] in "\t\r\n" or unicodedata.normalize("NFKC", first)[:1] in _FORMULA


def csv_name(what: str, start: datetime, end: datetime) -> str:
    """Return a file's name that says what it lists and of which time, in UTC."""
    first, last = (moment.astimezone(UTC).strftime("%Y%m%dT%H%MZ") for moment in (start, end))
    return f"guardops-{what}-{first}-{last}.csv"


def csv_response(
    name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]], *, limit: int = MAX_ROWS
) -> HttpResponseBase:
    """Answer with a file that is sent while ``rows`` are read, at most ``limit`` of them.

    A file that was cut at the limit says so in its last line. Where ``rows`` fail on the way, the last line
    says it, and the transfer breaks off, so that no browser calls it complete. Let ``rows`` read in short
    statements (a page's statement may take 5 s) and views allow GET alone: HEAD would read everything.
    While a quarter of this process's threads are exporting, the answer is 503.
    """
    if len(_under_way) >= max(1, settings.WEB_THREADS // 4):
        page = loader.get_template("export_busy.html").render()
        return HttpResponse(page, status=503, headers={"Retry-After": RETRY_AFTER_S, **_NOT_KEPT})
    return CsvResponse(name, header, rows, limit)


_NOT_KEPT = {"Cache-Control": "private, no-store"}


class CsvResponse(StreamingHttpResponse):
    """A file under way; use `csv_response`."""

    def __init__(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]], limit: int) -> None:
        self._failure: Exception | None = None
        super().__init__(
            self._parts(header, rows, limit),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": content_disposition_header(True, name), **_NOT_KEPT},
        )

    def _parts(self, header: Sequence[str], rows: Iterable[Sequence[Cell]], limit: int) -> Iterator[bytes]:
        this = object()
        _under_way.add(this)
        part = io.StringIO()
        writer = csv.writer(part, lineterminator="\r\n")
        writer.writerow([csv_cell(name) for name in header])
        try:
            for number, row in enumerate(self._readable(rows)):
                if number == limit:
                    writer.writerow([f"# Cut after {limit:,} rows: there are more. Choose a shorter range."])
                    break
                writer.writerow([csv_cell(value) for value in row])
                if part.tell() >= _PART:
                    yield part.getvalue().encode()
                    part.seek(0)
                    part.truncate()
            if self._failure:
                writer.writerow(["# Not complete: the rows after this one could not be read. Export again."])
            yield part.getvalue().encode()
        finally:
            _under_way.discard(this)

    def _readable(self, rows: Iterable[Sequence[Cell]]) -> Iterator[Sequence[Cell]]:
        try:
            yield from rows
        except Exception as failure:  # whatever it was: the file must say that it stops here
            self._failure = failure

    def close(self) -> None:
        super().close()
        # Raised only here, when all that there is has been sent: the door then leaves out the last chunk.
        if self._failure:
            raise self._failure
