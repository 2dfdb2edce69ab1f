from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Iterator
from io import StringIO

import pytest
from django.conf import settings

from guardops import logs

FORGED = 'read"}\n{"event": "admin signed in"\r\x1b[2J\u202e'


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> Iterator[StringIO]:
    stream = StringIO()
    configuration = logs.configuration(request.param, "INFO")
    configuration["handlers"]["stderr"]["stream"] = stream
    logging.config.dictConfig(configuration)
    yield stream
    logging.config.dictConfig(settings.LOGGING)


@pytest.mark.parametrize("stream", ["json", "text"], indirect=True)
def test_an_event_stays_one_line_whatever_is_in_it(stream: StringIO) -> None:
    logging.getLogger("guardops.x").warning("tool said %s", FORGED, extra={"domain": FORGED})
    written = stream.getvalue()
    assert written.count("\n") == 1
    assert "\x1b" not in written
    assert "\u202e" not in written


@pytest.mark.parametrize("stream", ["json"], indirect=True)
def test_an_exception_is_part_of_its_event(stream: StringIO) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError:
        logging.getLogger("guardops.x").exception("failed")
    event = json.loads(stream.getvalue())
    assert event["event"] == "failed"
    assert event["level"] == "error"
    assert event["exception"][0]["exc_value"] == FORGED


@pytest.mark.parametrize("stream", ["text"], indirect=True)
def test_a_traceback_cannot_be_taken_for_an_event(stream: StringIO) -> None:
    try:
        raise ValueError("x\nerror   forged")
    except ValueError:
        logging.getLogger("guardops.x").exception("failed")
    head, *rest = stream.getvalue().splitlines()
    assert head.startswith("error   failed")
    assert rest
    assert all(line.startswith("    ") for line in rest)


@pytest.mark.parametrize("stream", ["json", "text"], indirect=True)
def test_a_traceback_shows_no_values(stream: StringIO) -> None:
    def fail(key: str) -> None:
        raise ValueError("no")

    key = "go_" + "0" * 12  # put together, since a traceback shows the source
    try:
        fail(key)
    except ValueError:
        logging.getLogger("guardops.x").exception("failed")
    assert "fail" in stream.getvalue()
    assert key not in stream.getvalue()
