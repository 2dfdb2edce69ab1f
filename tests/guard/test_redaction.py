from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from guardops.guard.events import (
    LedgerRow,
    Outcome,
    RunEnded,
    RunHeartbeat,
    RunStarted,
    Source,
    SourceKind,
    Step,
    WorkRefused,
)
from guardops.guard.redaction import (
    HIDDEN,
    MAX_ARGS,
    hidden_args,
    hide,
    hide_in,
    hide_shapes,
    may_hold_secret,
    redact_event,
)
from tests.guard.secrets import SECRETS, Seeded

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("seeded", SECRETS, ids=lambda seeded: seeded.kind)
def test_a_secret_in_a_text_is_hidden(seeded: Seeded) -> None:
    shown = hide(f"before {seeded.text} after")
    assert may_hold_secret(seeded.text)
    assert all(part not in shown for part in seeded.parts)
    assert shown.startswith("before ")


@pytest.mark.parametrize("seeded", SECRETS, ids=lambda seeded: seeded.kind)
def test_a_secret_in_json_within_json_is_hidden(seeded: Seeded) -> None:
    inner = msgspec.json.encode({"note": seeded.text, **seeded.field}).decode()
    shown = hide(msgspec.json.encode({"body": inner}).decode())
    assert all(part not in shown for part in seeded.parts)


@pytest.mark.parametrize("seeded", SECRETS, ids=lambda seeded: seeded.kind)
def test_a_secret_in_arguments_is_hidden(seeded: Seeded) -> None:
    for args in ({"q": seeded.text}, {"a": [{"b": {"c": seeded.text}}]}, {"x": 1, **seeded.field}):
        shown = hidden_args(msgspec.json.encode(args))
        assert all(part not in shown for part in seeded.parts), shown


@pytest.mark.parametrize("seeded", SECRETS, ids=lambda seeded: seeded.kind)
def test_hiding_twice_changes_nothing(seeded: Seeded) -> None:
    once = hide(f"x {seeded.text} y")
    assert hide(once) == once


@pytest.mark.parametrize("seeded", SECRETS, ids=lambda seeded: seeded.kind)
def test_a_secret_anywhere_in_an_event_is_hidden(seeded: Seeded) -> None:
    event = RunEnded(
        job_type="t",
        outcome=Outcome.FAILED,
        started_at=AT,
        ended_at=AT,
        last_steps=[Step(step=1, tool="t", args=seeded.text, error_code=seeded.text[:64])],
        ledger=[LedgerRow(fingerprint="f", tool="t", first_error=seeded.text, last_error=seeded.text)],
        attributes={"note": seeded.text},
        halt_detail={"error": seeded.text, "deep": [{"x": seeded.text}], **seeded.field},
        limits={"max_steps": 3, "of_ours": seeded.text},
    )
    assert redact_event(event)
    sent = msgspec.json.encode(event).decode()
    assert all(part not in sent for part in seeded.parts)
    assert not redact_event(event)


@pytest.mark.parametrize("seeded", SECRETS, ids=lambda seeded: seeded.kind)
def test_a_secret_among_limits_alone_is_hidden(seeded: Seeded) -> None:
    limits = {"max_steps": 3, "of_ours": seeded.text}
    for event in (
        RunStarted(job_type="t", started_at=AT, limits=dict(limits)),
        RunEnded(job_type="t", outcome=Outcome.FAILED, started_at=AT, ended_at=AT, limits=dict(limits)),
    ):
        assert redact_event(event)
        assert all(part not in msgspec.json.encode(event).decode() for part in seeded.parts)


@pytest.mark.parametrize("kind", ["openai", "aws key", "github", "slack", "jwt", "our own", "userinfo"])
def test_a_known_shape_in_a_name_or_an_id_is_hidden(kind: str) -> None:
    seeded = next(seeded for seeded in SECRETS if seeded.kind == kind)
    name = seeded.text[:128]
    events: list[Any] = [
        RunEnded(job_type="t", outcome=Outcome.FAILED, started_at=AT, ended_at=AT, external_id=name),
        RunEnded(job_type="t", outcome=Outcome.FAILED, started_at=AT, ended_at=AT, agent=name),
        RunEnded(
            job_type="t",
            outcome=Outcome.FAILED,
            started_at=AT,
            ended_at=AT,
            sources=[Source(kind=SourceKind.TOOL, name=name)],
        ),
        RunStarted(job_type="t", started_at=AT, release=name),
        RunHeartbeat(seq=1, sources=[Source(kind=SourceKind.TOOL, name=name)]),
        RunHeartbeat(seq=1, pressure={name[:64]: 0.5}),
        WorkRefused(reason="deadline", agent=name, detail={"why": name}),
    ]
    for event in events:
        assert redact_event(event)
        assert all(part not in msgspec.json.encode(event).decode() for part in seeded.parts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain words",
        '{"q":"reset password","sender":"TechServices"}',
        '{"max_tokens":4096,"tokens":12}',
        "a basic understanding of the bearer of news",
        "https://a.example/articles/2026/11/30/what-happened?page=2&sort=new",
        "mail bob@a.example about https://b.example/",
        "run-0196f3a2-7c1e-7000-8000-0123456789ab",
        "src/components/dashboard/overview/DashboardOverviewPanel.tsx",
        "get_customer_invoices_of_the_last_quarter_2026",
        "task-42 of disk-1",
        '{"token":null,"password":"","ok":true}',
        "the secretary passed the author's keyboard",
        "agentdojo/Meta-SecAlign-70B-repeat_user_prompt/banking/user_task_14",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert hide(text) == text


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({"q": "plain"}, {"q": "plain"}),
        ({"api_key": "abc", "userPassword": "x"}, {"api_key": HIDDEN, "userPassword": HIDDEN}),
        ({"h": {"X-Auth": "abc"}}, {"h": {"X-Auth": HIDDEN}}),
        ({"q": "use sk-abcdefghijklmnop now"}, {"q": f"use {HIDDEN} now"}),
        ({"q": "Bearer abc.def"}, {"q": HIDDEN}),
        ({"n": [1, None, True]}, {"n": [1, None, True]}),
        ({"max_tokens": 9, "pin": 1234, "auth": False}, {"auth": False, "max_tokens": 9, "pin": HIDDEN}),
        (
            {"headers": [["Cookie", "a=b"], ["Accept", "x"]]},
            {"headers": [["Cookie", HIDDEN], ["Accept", "x"]]},
        ),
        (
            {"h": [{"name": "Authorization", "value": "zz"}]},
            {"h": [{"name": "Authorization", "value": HIDDEN}]},
        ),
        ({"credentials": {"user": "u", "x": "y"}}, {"credentials": HIDDEN}),
        ({"author": "A. N. Other", "passenger": "B"}, {"author": "A. N. Other", "passenger": "B"}),
    ],
)
def test_arguments_are_hidden_by_name_and_by_look(args: dict[str, Any], shown: dict[str, Any]) -> None:
    assert msgspec.json.decode(hidden_args(msgspec.json.encode(args))) == shown


def test_no_arguments_are_no_text() -> None:
    assert hidden_args(b"") == ""


def test_hidden_arguments_are_short() -> None:
    many = msgspec.json.encode({f"k{i}": "word " * 40 for i in range(30)})
    assert len(hidden_args(many)) == MAX_ARGS
    deep = msgspec.json.encode({"a": {"b": {"c": {"d": {"e": {"f": 1}}}}}})
    assert "…" in hidden_args(deep)


def test_a_secret_is_hidden_before_it_is_cut() -> None:
    shown = hidden_args(msgspec.json.encode({"q": "w " * 25 + "sk-abcdefghijklmnopqrstuvwxyz"}))
    assert "sk-" not in shown


def test_a_long_random_id_is_no_secret_in_a_name() -> None:
    digest = "9f8a7c6d5e4b3a291807f6e5d4c3b2a1"
    assert hide(digest) == HIDDEN
    assert hide_shapes(digest) == digest


def test_an_event_without_a_secret_stays_as_it_is() -> None:
    event = RunEnded(
        job_type="research",
        outcome=Outcome.COMPLETED,
        started_at=AT,
        ended_at=AT,
        root_task_id="0196f3a2-7c1e-7000-8000-0123456789ab",
        ledger=[LedgerRow(fingerprint="9f8a7c6d" * 8, tool="update_password", args_hash="9f8a7c6d" * 4)],
        last_steps=[Step(step=1, tool="update_password", args='{"q":"x"}', result_digest="9f8a7c6d" * 4)],
        limits={"max_tokens": 5_000_000, "max_cost": "10"},
        attributes={"team": "blue"},
    )
    before = copy.deepcopy(event)
    assert not redact_event(event)
    assert event == before


def test_values_deep_in_a_detail_are_hidden() -> None:
    assert hide_in({"a": [{"b": {"c": {"d": {"e": "AKIAABCDEFGHIJKLMNOP"}}}}]}) == {
        "a": [{"b": {"c": {"d": {"e": HIDDEN}}}}]
    }


def test_json_nested_beyond_reading_is_looked_at_as_text() -> None:
    assert hide("[" * 4_000 + " password=hunter2") == "[" * 4_000 + f" password={HIDDEN}"
    assert hide('{"a":' * 900 + '"password=hunter2"' + "}" * 900).count("hunter2") == 0
