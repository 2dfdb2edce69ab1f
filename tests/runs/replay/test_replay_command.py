from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from guardops.tenants.keys import authenticate
from guardops.tenants.models import Tenant
from tests.factories import NOW

from .little_gate import Reply, little_gate, reply
from .recordings import call, loop, recording

UNTIL = "2026-03-14T15:00:00+00:00"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    runs = [recording(call("a"), run_id="lab/1"), recording(*loop(), run_id="lab/2")]
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(map(json.dumps, runs)))
    return path


def replay(path: Path, capsys: pytest.CaptureFixture[str], *arguments: str, **options: Any) -> str:
    call_command("replay", str(path), *arguments, **options)
    return capsys.readouterr().out


def test_a_dry_run_prints_one_json_line_a_run_and_needs_no_database(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = replay(recorded, capsys, dry_run=True, json=True).splitlines()

    assert [json.loads(line) for line in lines] == [
        {
            "run_id": "lab/1",
            "stop_reason": None,
            "stop_step": None,
            "refused": 0,
            "nudges": 0,
            "calls_after_stop": 0,
        },
        {
            "run_id": "lab/2",
            "stop_reason": "repeated_call",
            "stop_step": 5,
            "refused": 2,
            "nudges": 1,
            "calls_after_stop": 4,
        },
    ]


def test_a_report_is_printed_after_the_runs(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = replay(recorded, capsys, dry_run=True, report=True)

    assert text.startswith("2 runs, 1 of them stopped; nothing was sent.\n")
    assert "lab     search    completed     2        1  50.0%" in text


def test_tools_of_a_file_are_in_force(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, tools = tmp_path / "runs.jsonl", tmp_path / "tools.json"
    path.write_text(json.dumps(recording(*[call("a", tool="pay")] * 2)))
    tools.write_text('{"tools": {"pay": {"class": "side_effect"}}}')

    without = json.loads(replay(path, capsys, dry_run=True, json=True))
    declared = json.loads(replay(path, capsys, dry_run=True, json=True, tools=tools))

    assert (without["refused"], declared["refused"]) == (0, 1)


def test_runs_are_sent_with_the_key_and_a_second_replay_sends_duplicates(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with little_gate() as gate:
        options = {"tenant": "acme", "url": gate.url, "key": "go_key"}
        first = replay(recorded, capsys, f"--until={UNTIL}", **options)
        second = replay(recorded, capsys, f"--until={UNTIL}", **options)

    assert "2 accepted, 0 duplicates" in first
    assert f"--until {UNTIL}" in first
    assert "0 accepted, 2 duplicates" in second
    assert gate.requests[0] == gate.requests[1]
    assert {event["tenant"] for event in gate.requests[0]} == {"acme"}
    assert gate.headers[0]["authorization"] == "Bearer go_key"


@pytest.mark.django_db
def test_without_a_key_one_is_made_for_the_tenant(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with little_gate() as gate:
        text = replay(recorded, capsys, tenant="acme", url=gate.url)

    assert "Made the tenant acme in the organisation local." in text
    holder = authenticate(gate.headers[0]["authorization"], NOW)
    assert list(holder.tenants) == ["acme"]


@pytest.mark.django_db
def test_a_name_that_is_no_slug_sends_nothing(recorded: Path) -> None:
    with little_gate() as gate, pytest.raises(CommandError, match="slug"):
        call_command("replay", str(recorded), tenant="no slug!", url=gate.url)

    assert not gate.requests
    assert not Tenant.objects.exists()


def test_a_rejected_run_fails_the_command_and_says_why(recorded: Path) -> None:
    results = [
        {"index": 0, "status": "rejected", "code": "out_of_range", "field": "cost", "message": "too high"}
    ]
    with (
        little_gate(Reply(body=reply(accepted=1, results=results))) as gate,
        pytest.raises(CommandError, match="out_of_range in cost too high"),
    ):
        call_command("replay", str(recorded), tenant="acme", url=gate.url, key="go_key")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"url": "http://127.0.0.1:1", "key": "go_key"}, "tenant with --tenant"),
        ({"tenant": "acme", "key": "go_key"}, "gate with --url"),
    ],
)
def test_a_missing_address_is_named(
    recorded: Path, settings: Any, options: dict[str, str], complaint: str
) -> None:
    settings.GATE_URL = ""

    with pytest.raises(CommandError, match=complaint):
        call_command("replay", str(recorded), **options)


@pytest.mark.parametrize(
    ("tools", "complaint"),
    [("{", "tools.json cannot be read"), ('{"max_steps": null}', "max_steps: must be a whole number")],
)
def test_a_policy_that_makes_no_sense_is_named(
    recorded: Path, tmp_path: Path, tools: str, complaint: str
) -> None:
    path = tmp_path / "tools.json"
    path.write_text(tools)

    with pytest.raises(CommandError, match=complaint):
        call_command("replay", str(recorded), dry_run=True, tools=path)


@pytest.mark.parametrize(
    ("until", "complaint"), [("soon", "invalid fromisoformat"), ("9999-01-01", "lies in the future")]
)
def test_a_window_that_makes_no_sense_is_refused(recorded: Path, until: str, complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        call_command("replay", str(recorded), f"--until={until}", dry_run=True)


def test_a_file_that_holds_no_runs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("no run")

    with pytest.raises(CommandError, match="line 1"):
        call_command("replay", str(path), dry_run=True)
