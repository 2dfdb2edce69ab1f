from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from guardops import env


@pytest.mark.parametrize(("raw", "value"), [("1", True), ("Yes", True), ("off", False), ("FALSE", False)])
def test_a_known_word_is_a_boolean(monkeypatch: pytest.MonkeyPatch, raw: str, value: bool) -> None:
    monkeypatch.setenv("GUARDOPS_X", raw)
    assert env.boolean("GUARDOPS_X", not value) is value


@pytest.mark.parametrize("raw", ["", "maybe", "2"])
def test_another_word_for_a_boolean_stops_the_start(monkeypatch: pytest.MonkeyPatch, raw: str) -> None:
    monkeypatch.setenv("GUARDOPS_X", raw)
    with pytest.raises(ImproperlyConfigured, match="GUARDOPS_X"):
        env.boolean("GUARDOPS_X", True)


@pytest.mark.parametrize("raw", ["", "eight", "1.5", "0", "65"])
def test_a_number_out_of_bounds_stops_the_start(monkeypatch: pytest.MonkeyPatch, raw: str) -> None:
    monkeypatch.setenv("GUARDOPS_X", raw)
    with pytest.raises(ImproperlyConfigured, match="GUARDOPS_X"):
        env.integer("GUARDOPS_X", 8, low=1, high=64)


def test_an_unset_text_without_default_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GUARDOPS_X", raising=False)
    with pytest.raises(ImproperlyConfigured, match="must be set"):
        env.text("GUARDOPS_X")


def test_a_choice_outside_the_list_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARDOPS_X", "staging")
    with pytest.raises(ImproperlyConfigured, match="local, production"):
        env.choice("GUARDOPS_X", ["local", "production"], "local")


def test_words_are_cut_at_commas_without_empty_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARDOPS_X", " a.example, ,b.example,")
    assert env.words("GUARDOPS_X") == ["a.example", "b.example"]


def test_a_database_address_is_read_with_its_quoting() -> None:
    found = env.database("postgresql://al%40ice:p%2Fw@db.example:6432/guard%20ops?sslmode=require")
    assert (found["USER"], found["PASSWORD"], found["NAME"]) == ("al@ice", "p/w", "guard ops")
    assert (found["HOST"], found["PORT"]) == ("db.example", "6432")
    assert found["OPTIONS"] == {"sslmode": "require"}


def test_a_socket_folder_is_taken_from_the_query() -> None:
    found = env.database("postgresql://guardops@/guardops?host=/run/x&port=5433")
    assert (found["HOST"], found["PORT"], found["OPTIONS"]) == ("/run/x", "5433", {})


def test_session_settings_join_those_of_the_address() -> None:
    found = env.database("postgresql:///x?options=-c%20jit%3Doff", settings={"statement_timeout": "5s"})
    assert found["OPTIONS"] == {"options": "-c statement_timeout=5s -c jit=off"}


@pytest.mark.parametrize(
    "url", ["", "mysql://x/y", "postgresql://db.example", "postgresql://db.example:port/x", "sqlite:///x"]
)
def test_an_address_that_is_no_database_stops_the_start(url: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        env.database(url)


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("", env.MailServer()),
        (
            "smtp://mara:s%40crt@mail.example.com",
            env.MailServer("mail.example.com", 587, "mara", "s@crt", starttls=True),
        ),
        ("smtp://mail.example.com?tls=implicit", env.MailServer("mail.example.com", 465, implicit_tls=True)),
        ("smtp://127.0.0.1:2525?tls=none", env.MailServer("127.0.0.1", 2525)),
        ("smtp://[::1]?tls=none", env.MailServer("::1", 25)),
    ],
)
def test_a_mail_servers_address_is_read(
    monkeypatch: pytest.MonkeyPatch, url: str, server: env.MailServer
) -> None:
    monkeypatch.setenv("GUARDOPS_X", url)
    assert env.mail_server("GUARDOPS_X") == server


@pytest.mark.parametrize(
    "url",
    ["mail.example.com", "http://mail.example.com", "smtp://", "smtp://mail.example.com:smtp", "smtp://[::1"]
    + [f"smtp://mail.example.com{rest}" for rest in (":99999", "/path", "?tls=ssl", "?tls=", "?ssl=1")],
)
def test_a_mail_servers_address_that_makes_no_sense_stops_the_start_and_shows_no_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("GUARDOPS_X", url.replace("://", "://mara:hidden@"))
    with pytest.raises(ImproperlyConfigured) as caught:
        env.mail_server("GUARDOPS_X")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("address", ["guardops@example.com", "GuardOps <guardops@localhost>"])
def test_an_address_to_send_from_is_read(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("GUARDOPS_X", address)
    assert env.mail_address("GUARDOPS_X", "a@example.com") == address


@pytest.mark.parametrize("address", ["", "GuardOps", "a@b@c", "a@example.com\nBcc: b@example.com"])
def test_an_address_that_makes_no_sense_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("GUARDOPS_X", address)
    with pytest.raises(ImproperlyConfigured):
        env.mail_address("GUARDOPS_X", "a@example.com")


def test_networks_are_read_and_an_address_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARDOPS_X", "10.20.0.0/16, fd00::/8,192.168.7.9")
    assert [str(network) for network in env.networks("GUARDOPS_X")] == [
        "10.20.0.0/16",
        "fd00::/8",
        "192.168.7.9/32",
    ]
    monkeypatch.delenv("GUARDOPS_X")
    assert env.networks("GUARDOPS_X") == []


@pytest.mark.parametrize("raw", ["10.20.0.1/16", "10.0.0.0/33", "inside.example.com", "10.*"])
def test_what_is_no_network_stops_the_start(monkeypatch: pytest.MonkeyPatch, raw: str) -> None:
    monkeypatch.setenv("GUARDOPS_X", raw)
    with pytest.raises(ImproperlyConfigured):
        env.networks("GUARDOPS_X")


@pytest.mark.parametrize(
    "raw", ["https://ops.example.com", "http://127.0.0.1:8000", "https://ops.example.com/"]
)
def test_a_web_address_is_read_without_its_slash(monkeypatch: pytest.MonkeyPatch, raw: str) -> None:
    monkeypatch.setenv("GUARDOPS_X", raw)
    assert env.web_address("GUARDOPS_X", "") == raw.rstrip("/")


@pytest.mark.parametrize(
    "raw",
    [
        "ops.example.com",
        "ftp://x",
        "https://",
        "https://x/path",
        "https://u:p@x",
        "https://x?a",
        "https://x y",
    ],
)
def test_what_is_no_web_address_stops_the_start(monkeypatch: pytest.MonkeyPatch, raw: str) -> None:
    monkeypatch.setenv("GUARDOPS_X", raw)
    with pytest.raises(ImproperlyConfigured):
        env.web_address("GUARDOPS_X", "")
