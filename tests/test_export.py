"""Lists as files: what a spreadsheet makes of a cell, and what a reader sees of an end."""

from __future__ import annotations

import csv
import http.client
import io
import json
import threading
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID
from zlib import decompressobj

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.middleware.gzip import GZipMiddleware
from waitress import wasyncore
from waitress.server import create_server

from guardops.export import Cell, csv_cell, file_response, range_name, text_of_cell

HOSTILE = {
    "=1+1": "'=1+1",
    "+1": "'+1",
    "-5": "'-5",
    "@SUM(A1)": "'@SUM(A1)",
    "|calc": "'|calc",
    "%0A": "'%0A",
    "\t=1": "'⟦U+0009⟧=1",
    "\rx": "'⟦U+000D⟧x",
    "\nx": "'⟦U+000A⟧x",
    "   =1": "'   =1",
    "\xa0=1": "'\xa0=1",
    "\u3000＝1": "'\u3000＝1",
    "＝cmd": "'＝cmd",
    "＋cmd": "'＋cmd",
    "－cmd": "'－cmd",
    "＠cmd": "'＠cmd",
    "｜cmd": "'｜cmd",
    "％cmd": "'％cmd",
    "﹢cmd": "'﹢cmd",
    "−5": "'−5",
    "\ufeff=1": "'⟦U+FEFF⟧=1",
    "\u200b\u202e=1": "'⟦U+200B⟧⟦U+202E⟧=1",
    "\x00=1": "'⟦U+0000⟧=1",
    '=HYPERLINK("http://x.example","go")': '\'=HYPERLINK("http://x.example","go")',
    "gpj.\u202eexe": "gpj.⟦U+202E⟧exe",
    "two\nlines": "two⟦U+000A⟧lines",
    "\ud800": "⟦U+D800⟧",
}
HARMLESS = ["", "plain", "a=b", "1-2", "'", '"', "ünï", "日本", "https://x.example/?q=-1", "#1", "  x", "–"]


def body(response: Any) -> str:
    return b"".join(response.streaming_content).decode()


def records(response: Any) -> list[list[str]]:
    return list(csv.reader(io.StringIO(body(response), newline=""), strict=True))


@pytest.mark.parametrize(("text", "cell"), HOSTILE.items())
def test_text_that_a_spreadsheet_may_run_is_made_text(text: str, cell: str) -> None:
    assert csv_cell(text) == cell


@pytest.mark.parametrize("text", sorted({*HOSTILE, *HARMLESS} - {"\x00=1", "\ud800"}))
def test_cell_is_read_as_it_was_before(text: str) -> None:
    assert text_of_cell(csv_cell(text)) == text


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert csv_cell(text) == text


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (-5, "-5"),
        (Decimal("-0.000001"), "-0.000001"),
        (Decimal("1E+2"), "100"),
        (-2.5, "-2.5"),
        (float("-inf"), "'-inf"),
        (True, "yes"),
        (False, "no"),
        (None, ""),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2))), "2026-03-29T00:30:00.000Z"),
    ],
)
def test_what_is_no_text_is_written_plainly(value: Cell, cell: str) -> None:
    assert csv_cell(value) == cell


def test_file_reads_back_as_it_was_written() -> None:
    rows: list[list[Cell]] = [['a"b', "c,d", 1], ["é", "=1", Decimal("0.5")], ["two\r\nlines", "", None]]
    response = file_response("csv", "x", ["one", "two", "three"], rows)

    assert records(response) == [
        ["one", "two", "three"],
        ['a"b', "c,d", "1"],
        ["é", "'=1", "0.5"],
        ["two⟦U+000D⟧⟦U+000A⟧lines", "", ""],
    ]


def test_records_end_as_the_standard_says_and_each_is_one_line() -> None:
    assert body(file_response("csv", "x", ["a"], [["x\ny"], ["z"]])) == "a\r\nx⟦U+000A⟧y\r\nz\r\n"


def test_no_cache_keeps_the_file() -> None:
    response = file_response("csv", "runs", ["a"], [])

    assert response["Cache-Control"] == "private, no-store"
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="runs.csv"'


def test_name_says_what_is_listed_and_of_which_time() -> None:
    start = datetime(2026, 3, 29, 1, 30, tzinfo=timezone(timedelta(hours=1)))
    end = datetime(2026, 3, 30, tzinfo=UTC)

    assert range_name("runs", start, end) == "guardops-runs-20260329T0030Z-20260330T0000Z"


def test_rows_are_sent_while_they_are_read_in_bounded_memory() -> None:
    read = 0

    def rows() -> Iterator[Sequence[Cell]]:
        nonlocal read
        for read in range(100_000):
            yield [read, "some text of usual length", Decimal("0.01")]

    parts = iter(file_response("csv", "x", ["a", "b", "c"], rows()).streaming_content)  # type: ignore[attr-defined]
    next(parts)
    assert read < 5_000

    tracemalloc.start()
    for _ in parts:
        pass
    assert tracemalloc.get_traced_memory()[1] < 2 * 1024 * 1024
    tracemalloc.stop()


def test_file_cut_at_its_limit_says_so() -> None:
    cut = records(file_response("csv", "x", ["a"], [[n] for n in range(5)], limit=3))
    whole = records(file_response("csv", "x", ["a"], [[n] for n in range(3)], limit=3))

    assert cut[1:4] == [["0"], ["1"], ["2"]]
    assert cut[4] == ["# Cut after 3 rows: there are more. Choose a shorter range."]
    assert whole == [["a"], ["0"], ["1"], ["2"]]


def document(response: Any) -> Any:
    return json.loads(body(response))


def test_json_holds_the_same_rows_with_their_types(db: None) -> None:
    moment = datetime(2026, 3, 29, 2, 30, tzinfo=timezone(timedelta(hours=2)))
    row = ["=1+1", 7, 0.5, True, None, Decimal("0.021000"), moment, UUID(int=1)]
    response = file_response("json", "x", list("abcdefgh"), [row])

    assert response["Content-Type"] == "application/json"
    assert 'filename="x.json"' in response["Content-Disposition"]
    assert document(response) == {
        "rows": [
            {
                "a": "=1+1",
                "b": 7,
                "c": 0.5,
                "d": True,
                "e": None,
                "f": "0.021000",
                "g": "2026-03-29T00:30:00.000Z",
                "h": str(UUID(int=1)),
            }
        ],
        "complete": True,
    }


def test_json_of_nothing_is_an_empty_list(db: None) -> None:
    assert document(file_response("json", "x", ["a"], [])) == {"rows": [], "complete": True}


@pytest.mark.parametrize("text", [*HOSTILE, *HARMLESS])
def test_json_writes_any_text_in_ascii_and_in_one_line(text: str, db: None) -> None:
    written = body(file_response("json", "x", ["a"], [[text], ["next"]]))

    assert written.isascii()
    assert written.count("\n") == 4
    assert json.loads(written)["rows"] == [{"a": text}, {"a": "next"}]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_holds_no_number_that_is_none(value: float, db: None) -> None:
    assert document(file_response("json", "x", ["a"], [[value]]))["rows"] == [{"a": None}]


def test_json_that_was_cut_says_that_it_is_not_complete(db: None) -> None:
    cut = document(file_response("json", "x", ["a"], [[n] for n in range(5)], limit=3))

    assert cut["rows"] == [{"a": 0}, {"a": 1}, {"a": 2}]
    assert (cut["complete"], cut["why"][:16]) == (False, "Cut after 3 rows")


def test_json_that_broke_off_says_that_it_is_not_complete_and_is_an_error(db: None) -> None:
    response = file_response("json", "x", ["a"], failing())
    broken = document(response)

    assert (len(broken["rows"]), broken["complete"]) == (30_000, False)
    with pytest.raises(RuntimeError, match="went away"):
        response.close()


def failing() -> Iterator[Sequence[Cell]]:
    for number in range(30_000):
        yield [number]
    raise RuntimeError("the database went away")


def test_failure_on_the_way_is_the_last_line_and_an_error(db: None) -> None:
    response = file_response("csv", "x", ["a"], failing())

    assert records(response)[-2:] == [
        ["29999"],
        ["# Not complete: the rows after this one could not be read. Export again."],
    ]
    with pytest.raises(RuntimeError, match="went away"):
        response.close()


@pytest.fixture
def download() -> Iterator[Any]:
    """Return a function that fetches a file through the real door, and says whether it came whole."""
    rows: list[Iterable[Sequence[Cell]]] = []

    def application(environ: dict[str, Any], start_response: Any) -> Any:
        response = file_response("csv", "x", ["a"], rows[-1])
        GZipMiddleware(lambda _: response).process_response(WSGIRequest(environ), response)
        start_response("200 OK", list(response.items()))
        return response

    server = create_server(application, host="127.0.0.1", port=0, threads=2)
    over = threading.Event()

    def serve() -> None:
        while not over.is_set():
            wasyncore.loop(timeout=0.05, map=server._map, count=1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    def download(of: Iterable[Sequence[Cell]], encoding: str) -> tuple[str, bool]:
        rows.append(of)
        client = http.client.HTTPConnection("127.0.0.1", server.effective_port, timeout=10)
        client.request("GET", "/", headers={"Accept-Encoding": encoding})
        response = client.getresponse()
        try:
            data, whole = response.read(), True
        except http.client.IncompleteRead as broken:
            data, whole = broken.partial, False
        client.close()
        return (decompressobj(31).decompress(data) if encoding == "gzip" else data).decode(), whole

    yield download
    over.set()
    thread.join(10)
    server.task_dispatcher.shutdown()
    server.close()


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_failure_breaks_the_transfer_after_its_line(download: Any, encoding: str) -> None:
    text, whole = download(failing(), encoding)

    assert text.splitlines()[-1].startswith("# Not complete")
    assert not whole


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_file_arrives_whole_through_the_door(download: Any, encoding: str) -> None:
    text, whole = download(([number] for number in range(30_000)), encoding)

    assert text.splitlines() == ["a", *map(str, range(30_000))]
    assert whole


def test_exports_leave_threads_for_pages(db: None, settings: Any) -> None:
    settings.WEB_THREADS = 8
    under_way = [file_response("csv", "x", ["a"], iter(failing())) for _ in range(2)]
    parts = [iter(response.streaming_content) for response in under_way]  # type: ignore[attr-defined]
    for part in parts:
        next(part)
    refused = file_response("csv", "x", ["a"], [])
    under_way[0].close()

    assert (refused.status_code, refused["Retry-After"]) == (503, "15")
    assert b"Other exports are under way" in refused.content  # type: ignore[attr-defined]
    assert file_response("csv", "x", ["a"], []).status_code == 200
    under_way[1].close()
