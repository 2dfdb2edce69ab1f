from __future__ import annotations

import copy
import random
from datetime import UTC, datetime
from itertools import cycle
from typing import Any

import msgspec
import pytest

from guardops.guard import hiding
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
from guardops.guard.hiding import HIDDEN, MAX_ARGS, hidden_args, hide, hide_in, hide_shapes
from guardops.guard.hints import may_hold_secret
from guardops.guard.redaction import redact_event, redact_events
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


def make_run(**fields: Any) -> RunEnded:
    return RunEnded(job_type="t", outcome=Outcome.FAILED, started_at=AT, ended_at=AT, **fields)


_WORDS = [
    "plain",
    "monkey",
    "passenger",
    "tok",
    "en",
    "=",
    ":",
    " ",
    "\n",
    "…",
    "@",
    "://",
    "/",
    '"',
    "\u212a",
]
_WORDS += [seeded.text for seeded in SECRETS] + [
    "9f8a7c6d" * 4,
    "gpt-4o-2024-05-13-of_a_long_name",
    "İ",
    "basic ",
]
_WORDS += [
    "pass",
    "key",
    "auth",
    "cookie",
    "sig",
    "session",
    "id",
    "value",
    "AKIA",
    "sk-",
    "ghp_",
    "-u ",
    "Bearer",
]


def make_texts(seed: int) -> list[str]:
    """Return words, parts of secrets and whole ones, put together at random."""
    rng = random.Random(seed)
    return ["".join(rng.choices(_WORDS, k=rng.randint(0, 4))) for _ in range(3_000)]


def make_mixed_events(seed: int) -> list[Any]:
    """Return events of every type that hold such texts."""
    texts = cycle(make_texts(seed))

    def text(longest: int) -> str:
        return next(texts)[:longest]

    def make() -> list[Any]:
        return [
            make_run(
                agent=text(128),
                external_id=text(128),
                last_steps=[Step(step=1, tool=text(128), args=text(4_096), error_code=text(64))],
                ledger=[
                    LedgerRow(fingerprint="f", tool=text(128), first_error=text(64), last_error=text(64))
                ],
                attributes={text(64): text(256)},
                limits={"max_tokens": 5, "theirs": text(99)},
            ),
            make_run(halt_detail={text(20): {text(20): text(99)}}),
            make_run(last_steps=[Step(step=1, tool="t", args=msgspec.json.encode({"q": text(99)}).decode())]),
            RunStarted(job_type="t", started_at=AT, limits={text(20): text(99), "max_cost": "10"}),
            RunHeartbeat(seq=1, pressure={text(64): 0.5}),
            WorkRefused(reason="deadline", agent=text(128), detail={"why": text(99)}),
        ]

    return [event for _ in range(40) for event in make()]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_hidden_among_many_is_what_is_hidden_alone(seed: int) -> None:
    together, alone = make_mixed_events(seed), make_mixed_events(seed)
    assert redact_events(together) == [redact_event(event) for event in alone]
    assert together == alone


@pytest.mark.parametrize("seed", range(3))
def test_text_that_is_not_looked_at_closely_holds_nothing_to_hide(seed: int) -> None:
    """The slow, plain reference of the cheap look: every pattern, tried on every text."""
    close = (hiding._KNOWN_SHAPE, hiding._USER_IN_URL, hiding._BEARER, hiding._USER_OPTION)
    plain = [text for text in make_texts(seed) if not may_hold_secret(text)]
    assert len(plain) > 100
    for text in plain:
        assert not any(pattern.search(text) for pattern in (*close, *hiding._BY_NAME))
        assert hiding._BASIC.sub(hiding._without_credentials, text) == text
        assert hiding._LONG_RUN.sub(hiding._without_random, text) == text


def test_secret_is_found_among_many_plain_events() -> None:
    events: list[Any] = [make_run(attributes={"team": "blue"}) for _ in range(100)]
    events[63] = make_run(attributes={"note": "password=hunter2"})
    assert [place for place, hidden in enumerate(redact_events(events)) if hidden] == [63]


@pytest.mark.parametrize(
    "args",
    [
        r'{"q":"sk\u002dproj-seeded03seeded03seeded"}',
        r'{"q":"https:\/\/agent:seeded03@db.example"}',
        r'{"pass\u0077ord":"seeded03"}',
        "to\u212aen=seeded03",
    ],
)
def test_secret_that_is_written_in_another_way_is_hidden(args: str) -> None:
    event = make_run(last_steps=[Step(step=1, tool="t", args=args)])
    assert redact_event(event)
    assert "seeded03" not in event.last_steps[0].args


def test_letter_beyond_ascii_after_basic_is_no_error() -> None:
    assert (
        hide("Basic \u017f\u017f\u017f\u017f\u017f\u017f\u017f")
        == "Basic \u017f\u017f\u017f\u017f\u017f\u017f\u017f"
    )


@pytest.mark.parametrize("digits", [32, 40, 64])
@pytest.mark.parametrize("name", ["id", "recorded_run_id", "git.commit", "sha256", "trace-id"])
def test_attribute_that_is_an_identifier_stays(name: str, digits: int) -> None:
    digest = ("9f8a7c6d5e4b3a29" * 4)[:digits]
    event = make_run(attributes={name: digest, f"other_{name}": f"agentrx/{digest}"})
    assert not redact_event(event)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("note", "9f8a7c6d5e4b3a29" * 2),
        ("session_id", "9f8a7c6d5e4b3a29" * 2),
        ("token_id", "9f8a7c6d5e4b3a29" * 2),
        ("bid", "9f8a7c6d5e4b3a29" * 2),
        ("run_id", "q9Zr4seeded29Xw2Lk8vBn5Tc1Yh7Jd3Fg6"),
        ("run_id", "token=abc/" + "9f8a7c6d5e4b3a29" * 2),
    ],
)
def test_attribute_that_only_looks_like_an_identifier_is_hidden(name: str, text: str) -> None:
    event = make_run(attributes={name: text})
    assert redact_event(event)
    assert "9f8a7c6d5e4b" not in event.attributes[name]


@pytest.mark.parametrize(
    "limits", [{"pin": 1234}, {"token": "abc"}, {"session_id": "abc"}, {"9f8a7c6d" * 4: 1}]
)
def test_limit_with_a_telling_name_is_hidden_at_the_start(limits: dict[str, Any]) -> None:
    event = RunStarted(job_type="t", started_at=AT, limits={"max_tokens": 5, **limits})
    assert redact_event(event)
    assert "abc" not in event.limits.values()
    assert event.limits["max_tokens"] == 5


@pytest.mark.parametrize(
    "key",
    [
        "npm_seeded03seeded03",
        "hf_seeded03seeded03",
        "ya29.seeded03seeded03",
        "SG.seeded03seed.seeded03seed",
        "xapp-seeded03seed",
        "ghp_seeded03seed",
        "eyJseeded03.seeded03",
    ],
)
def test_short_key_of_a_known_maker_is_hidden(key: str) -> None:
    event = make_run(attributes={"note": key})
    assert redact_event(event)
    assert "seeded03" not in event.attributes["note"]
