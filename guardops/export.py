"""Lists as files, CSV or JSON: streamed, safe to open in a spreadsheet, honest about where they end.

CSV is RFC 4180 in UTF-8, one record a line: what breaks a line, or shows as nothing, is written ⟦U+000A⟧.
Text that a spreadsheet would run as a formula begins with an apostrophe; numbers stay numbers. Times are in
UTC.
JSON is one document, a row a line: ``{"rows": [{…}, …], "complete": true}``. Texts are as they are, money is
a string of digits; a file that was cut or broke off says ``"complete": false`` and why.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.template import loader
from django.urls import URLPattern, path
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


def json_value(value: Cell) -> str | int | float | None:
    """Return what stands in a JSON file for ``value``."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return csv_cell(value) if isinstance(value, Decimal | datetime) else str(value)


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


def range_name(what: str, start: datetime, end: datetime) -> str:
    """Return a file's name, without its ending, that says what it lists and of which time, in UTC."""
    first, last = (moment.astimezone(UTC).strftime("%Y%m%dT%H%MZ") for moment in (start, end))
    return f"guardops-{what}-{first}-{last}"


def file_name(what: str, now: datetime) -> str:
    """Return the name of a file, without its ending, that lists what there is ``now``."""
    return f"guardops-{what}-{now.astimezone(UTC):%Y%m%dT%H%MZ}"


def file_paths(route: str, view: Callable[..., HttpResponseBase], name: str) -> list[URLPattern]:
    """Return the addresses of a list as files: ``name`` in CSV, ``name-json`` in JSON.

    The view takes ``form`` beside what ``route`` names, and hands it to `file_response`.
    """
    return [
        path(f"{route}.csv", view, name=name),
        path(f"{route}.json", view, {"form": "json"}, name=f"{name}-json"),
    ]


def file_response(
    form: str, name: str, header: Sequence[str], rows: Iterable[Sequence[Cell]], *, limit: int = MAX_ROWS
) -> HttpResponseBase:
    """Answer with a file that is sent while ``rows`` are read, at most ``limit`` of them.

    ``form`` is ``csv`` or ``json``, ``name`` the file's without its ending. A file that was cut at the limit
    says so at its end. Where ``rows`` fail on the way, the end says it, and the transfer breaks off, so that
    no browser calls it complete. Let ``rows`` read in short statements (a page's statement may take 5 s) and
    views allow GET alone: HEAD would read everything. While a quarter of this process's threads are
    exporting, the answer is 503.
    """
    if len(_under_way) >= max(1, settings.WEB_THREADS // 4):
        page = loader.get_template("export_busy.html").render()
        return HttpResponse(page, status=503, headers={"Retry-After": RETRY_AFTER_S, **_NOT_KEPT})
    return FileResponse(_FORMS[form](header), f"{name}.{form}", rows, limit)


_NOT_KEPT = {"Cache-Control": "private, no-store"}
_CUT = "Cut after {:,} rows: there are more. Choose a shorter range."
_BROKEN = "Not complete: the rows after this one could not be read. Export again."


class _Csv:
    content_type = "text/csv; charset=utf-8"

    def __init__(self, header: Sequence[str]) -> None:
        self._part = io.StringIO()
        self._writer = csv.writer(self._part, lineterminator="\r\n")
        self._writer.writerow([csv_cell(name) for name in header])

    def add(self, row: Sequence[Cell]) -> None:
        self._writer.writerow([csv_cell(value) for value in row])

    def end(self, why: str) -> None:
        if why:
            self._writer.writerow([f"# {why}"])

    def take(self, *, least: int = 0) -> bytes:
        """Return what was written since the last time; nothing below ``least`` characters."""
        if self._part.tell() < least:
            return b""
        text = self._part.getvalue()
        self._part.seek(0)
        self._part.truncate()
        return text.encode()


class _Json:
    content_type = "application/json"

    def __init__(self, header: Sequence[str]) -> None:
        self._names = list(header)
        self._parts = ['{"rows": [']
        self._size, self._empty = 0, True

    def add(self, row: Sequence[Cell]) -> None:
        values = dict(zip(self._names, map(json_value, row), strict=True))
        # ASCII alone: what shows as nothing is written \u202e, and no text breaks a line.
        text = ("\n" if self._empty else ",\n") + json.dumps(values)
        self._parts.append(text)
        self._size, self._empty = self._size + len(text), False

    def end(self, why: str) -> None:
        end = {"complete": not why} | ({"why": why} if why else {})
        self._parts.append(f"\n], {json.dumps(end)[1:]}\n")

    def take(self, *, least: int = 0) -> bytes:
        if self._size < least:
            return b""
        text, self._parts, self._size = "".join(self._parts), [], 0
        return text.encode()


_FORMS: dict[str, type[_Csv | _Json]] = {"csv": _Csv, "json": _Json}


class FileResponse(StreamingHttpResponse):
    """A file under way; use `file_response`."""

    def __init__(self, file: _Csv | _Json, name: str, rows: Iterable[Sequence[Cell]], limit: int) -> None:
        self._failure: Exception | None = None
        super().__init__(
            self._sent(file, rows, limit),
            content_type=file.content_type,
            headers={"Content-Disposition": content_disposition_header(True, name), **_NOT_KEPT},
        )

    def _sent(self, file: _Csv | _Json, rows: Iterable[Sequence[Cell]], limit: int) -> Iterator[bytes]:
        this = object()
        _under_way.add(this)
        why = ""
        try:
            for number, row in enumerate(self._readable(rows)):
                if number == limit:
                    why = _CUT.format(limit)
                    break
                file.add(row)
                if part := file.take(least=_PART):
                    yield part
            file.end(_BROKEN if self._failure else why)
            yield file.take()
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
