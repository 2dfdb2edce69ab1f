from __future__ import annotations

import stat
from pathlib import Path

import pytest

from guardops.guard.memory_store import MemoryStore
from guardops.guard.session import Guard
from guardops.guard.settings import Settings, SettingsError, state_folder
from guardops.guard.sqlite import SqliteStore

GIVEN = {"GUARDOPS_URL": "https://gate.example/", "GUARDOPS_KEY": "go_0123456789ab_secret"}


def settings(folder: Path, tenant: str | None = None, **given: str) -> Settings:
    return Settings.from_env({**GIVEN, "GUARDOPS_STATE": str(folder), **given}, tenant)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({}, "GUARDOPS_URL and GUARDOPS_KEY"),
        ({"GUARDOPS_URL": "https://gate.example"}, "GUARDOPS_KEY"),
        ({"GUARDOPS_KEY": "k", "GUARDOPS_URL": " "}, "GUARDOPS_URL"),
    ],
)
def test_what_is_missing_is_named(environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=f"^Set {named}: "):
        Guard.from_env(environ=environ)


@pytest.mark.parametrize(
    "url",
    [
        "gate.example",
        "ftp://gate.example",
        "https://",
        "http://u:p@gate.example",
        "https://g/?x=1",
        "http://g:port",
    ],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="GUARDOPS_URL"):
        Guard.from_env(environ={**GIVEN, "GUARDOPS_URL": url})


@pytest.mark.parametrize("key", ["a b", "schlüssel", "a\nb"])
def test_a_key_that_no_header_takes_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(SettingsError, match="GUARDOPS_KEY") as caught:
        Guard.from_env(environ={**GIVEN, "GUARDOPS_KEY": key})
    assert key not in str(caught.value)


def test_a_key_is_not_shown(tmp_path: Path) -> None:
    assert "secret" not in repr(settings(tmp_path))


def test_runs_are_kept_in_a_file_that_its_user_alone_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    guard = Guard.from_env(environ={**GIVEN, "GUARDOPS_STATE": str(folder)})
    assert isinstance(guard.store, SqliteStore)
    guard.store.root("r", guard.policy.limits)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert guard.close(0)


def test_a_folder_that_cannot_be_had_leaves_memory_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    assert isinstance(settings(tmp_path / "file" / "state").store(), MemoryStore)
    assert "kept in memory" in caplog.text


def test_the_folder_is_the_one_set_or_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_folder({"GUARDOPS_STATE": "~/s"}) == tmp_path / "s"
    assert state_folder({"XDG_STATE_HOME": "/x"}) == Path("/x/guardops")
    assert state_folder({}) == tmp_path / ".local/state/guardops"


def test_what_waits_for_one_gate_or_tenant_is_not_sent_to_another(tmp_path: Path) -> None:
    other_key = {"GUARDOPS_KEY": "go_aaaaaaaaaaaa_secret"}
    places = [
        settings(tmp_path),
        settings(tmp_path, **other_key),
        settings(tmp_path, GUARDOPS_URL="https://other.example"),
        settings(tmp_path, "acme"),
        settings(tmp_path, "umbrella"),
    ]
    assert len({place.destination for place in places}) == len(places)
    assert settings(tmp_path, "acme", **other_key).destination == settings(tmp_path, "acme").destination
    assert settings(tmp_path, GUARDOPS_URL="https://gate.example").destination == places[0].destination
