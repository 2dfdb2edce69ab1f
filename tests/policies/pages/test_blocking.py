"""Blocking on a page: two steps, one result a line, nothing typed is lost."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from guardops.tenants.choices import Role
from policies.models import BlockedSource, Change
from tests.factories import make_member, make_operator
from tests.hostile.payloads import PAYLOADS
from tests.policies.conftest import House, bundle_of, contradict

from .conftest import text_of

ADD = reverse("policies:blocklist-add")
STEPS = ("edit", "preview", "confirm")


def sent(*names: str, step: str = "confirm", **fields: Any) -> dict[str, Any]:
    """Return what the form sends to block these for the tenant."""
    how = {"place": "tenant:research", "kind": "domain", "match": "registrable", "action": "block"}
    return {**how, "names": "\n".join(names), "step": step, **fields}


def file(text: str | bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("list.csv", text.encode() if isinstance(text, str) else text)


def results(response: HttpResponse) -> list[str]:
    """Return what the page says became of each line, as words."""
    cells = re.findall(r'data-l="Result">(.*?)</td>', text_of(response), re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in cells]


def test_preview_says_what_each_line_does_and_writes_nothing(browser: Client, house: House) -> None:
    browser.post(ADD, sent("old.example"))
    house.organisation.allowed_domains = ["acme.example"]
    house.organisation.save()
    lines = ["https://www.New.example/x", "new.example", "old.example", "co.uk", "10.0.0.1", "a.acme.example"]
    response = browser.post(ADD, sent(*lines, step="preview"))
    assert results(response) == [
        "Blocked",
        "Given above",
        "Already on the list",
        "Refused This is a public suffix: everybody below it would be blocked.",
        "Refused IP addresses are not blocked: they change hands.",
        "Refused The organisation&#x27;s list of allowed domains has this, or a part of it.",
    ]
    assert "Block 1 source for" in text_of(response)
    assert BlockedSource.objects.count() == 1


def test_tenant_whose_list_is_full_is_told_that_nothing_was_blocked(
    browser: Client, house: House, full: Callable[[], None]
) -> None:
    full()
    assert "Nothing was blocked." in text_of(browser.post(ADD, sent("new.example")))
    assert not BlockedSource.objects.exists()


def test_tenant_whose_rules_contradict_each_other_is_blocked_for_all_the_same(
    browser: Client, house: House
) -> None:
    contradict(house)
    browser.post(ADD, sent("new.example"))
    assert [source.name for source in bundle_of(house.tenant).blocked] == ["new.example"]


def test_preview_asks_how_many_completed_runs_used_each(browser: Client, house: House) -> None:
    text = text_of(browser.post(ADD, sent("a.example", "co.uk", step="preview")))
    address = f"{reverse('runs:sources-used')}?tenant=research&amp;kind=domain&amp;name=a.example"
    assert text.count(f'href="{address}"') == text.count(f'hx-get="{address}"') == 1
    assert text.count("hx-get") == 1


def test_confirmed_lines_have_one_result_each(browser: Client, house: House) -> None:
    browser.post(ADD, sent("old.example"))
    response = browser.post(ADD, sent("a.example", "old.example", "co.uk", "b.example"))
    assert results(response) == [
        "Blocked",
        "Already on the list",
        "Refused This is a public suffix: everybody below it would be blocked.",
        "Blocked",
    ]
    assert {source.name for source in bundle_of(house.tenant).blocked} == {
        "a.example",
        "b.example",
        "old.example",
    }


def test_single_block_leads_to_its_change(browser: Client, house: House) -> None:
    response = browser.post(ADD, sent("a.example"))
    assert response["Location"] == reverse("policies:change", args=[Change.objects.get().pk])
    page = text_of(browser.get(response["Location"]))
    assert reverse("policies:blocklist-revert", args=[Change.objects.get().pk]) in page


def test_preview_keeps_all_that_was_typed(browser: Client, house: House) -> None:
    typed = sent(
        "a.example",
        "b.example",
        step="preview",
        action="limit",
        most="2",
        reason="tar\u202epit",
        note="two\nlines",
        lasting="7d",
        origin="proposed",
        evidence="/runs/",
    )
    text = text_of(browser.post(ADD, typed))
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', text))
    assert {name: fields[name].replace("⟦U+202E⟧", "\u202e") for name in typed if name != "step"} == {
        name: value for name, value in typed.items() if name != "step"
    }
    browser.post(ADD, {**fields, "step": "confirm"})
    source = BlockedSource.objects.get(name="a.example")
    assert (source.most, source.reason, source.note) == (2, "tar\u202epit", "two\nlines")
    assert (source.origin, source.evidence) == ("proposed", "/runs/")
    assert source.expires_at is not None
    assert (source.expires_at - source.created_at).days == 7


def test_change_something_comes_back_to_the_form_as_it_was(browser: Client, house: House) -> None:
    text = text_of(browser.post(ADD, sent("a.example", step="edit", reason="tarpit")))
    assert "a.example</textarea>" in text
    assert 'value="tarpit"' in text
    assert BlockedSource.objects.count() == 0


def test_link_fills_in_the_form(browser: Client, house: House) -> None:
    told = {"place": "organisation:acme", "name": "a.example", "action": "limit", "most": "3"}
    text = text_of(browser.get(ADD, {**told, "origin": "source", "evidence": "/runs/"}))
    assert '<option value="organisation:acme" selected>' in text
    assert '<option value="limit" selected>' in text
    assert 'name="most" value="3"' in text
    assert 'name="evidence" value="/runs/"' in text
    assert "a.example</textarea>" in text


def test_file_is_shown_line_by_line_and_kept_for_the_second_step(browser: Client, house: House) -> None:
    table = "name,kind,action,most,reason\r\na.example,,,,\r\nfetch,tool,limit,2,slow\r\nco.uk,,,,\r\n"
    response = browser.post(ADD, sent(step="preview", file=file("\ufeff" + table)))
    assert [line.split()[0] for line in results(response)] == ["Blocked", "2", "Refused"]
    [kept] = re.findall(r'name="table" value="([^"]*)"', text_of(response))
    browser.post(ADD, sent(table=kept))
    assert set(BlockedSource.objects.values_list("name", "most")) == {("a.example", 0), ("fetch", 2)}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"names": ""}, "There is no line in it."),
        ({"names": "a.example\n" * 1_001}, "At most 1,000 lines at once; these are 1,001"),
        ({"names": "a\0"}, "Null characters are not allowed."),
        ({"action": "limit"}, "Say how many calls a run may make."),
        ({"action": "limit", "most": "501"}, "less than or equal to 500"),
        ({"action": "limit", "most": "9" * 400}, "id_most_error"),
        ({"reason": "x" * 301}, "at most 300 characters"),
        ({"evidence": "https://attacker.example/"}, "The evidence is no page of GuardOps."),
        ({"lasting": "for ever"}, "Select a valid choice"),
        ({"place": "tenant:elsewhere"}, "Select a valid choice"),
        ({"table": "name\na.example"}, "Give names or a file, not both at once."),
    ],
)
def test_what_makes_no_sense_is_said_and_nothing_is_lost(
    browser: Client, house: House, fields: dict[str, str], said: str
) -> None:
    text = text_of(browser.post(ADD, sent("kept.example", **{"note": "kept note", **fields})))
    assert said in text
    assert "Nothing is blocked yet" in text
    assert "kept note" in text
    assert BlockedSource.objects.count() == 0


@pytest.mark.parametrize("body", [b"\xff\xfe", b"name\n\0", b"host\na", b"name\n" + b"x" * 1_048_576])
def test_file_that_cannot_be_read_is_an_error_of_its_field(
    browser: Client, house: House, body: bytes
) -> None:
    text = text_of(browser.post(ADD, sent(step="preview", file=file(body))))
    assert "id_file_error" in text


def test_hostile_text_in_any_field_is_only_text(browser: Client, house: House) -> None:
    names = [name for payload in PAYLOADS for name in payload.splitlines()]
    pages = [text_of(browser.post(ADD, sent(*names, step=step, kind="tool"))) for step in STEPS]
    pages += [text_of(browser.post(ADD, sent(*names, step="preview")))]
    pages += [text_of(browser.get(reverse("policies:blocklist")))]
    for payload in PAYLOADS:
        told = {"reason": payload[:300], "note": payload, "name": payload, "evidence": payload}
        pages += [text_of(browser.get(ADD, {**told, "place": payload}))]
    for payload in PAYLOADS[::6]:
        pages += [text_of(browser.post(ADD, sent("a.example", reason=payload, evidence=payload)))]
    assert not re.search(r"<(script|img|iframe|base|object)[^>]*(4242|attacker)", "".join(pages))
    assert not [page for page in pages if "\u202e" in page or "\x1b" in page]


def test_organisations_admin_blocks_for_all_its_tenants(browser: Client, house: House) -> None:
    browser.post(ADD, sent("a.example", place="organisation:acme"))
    for tenant in (house.tenant, house.sibling):
        assert [source.name for source in bundle_of(tenant).blocked] == ["a.example"]


def test_operator_alone_blocks_for_everybody(client: Client, house: House) -> None:
    client.force_login(house.admin)
    assert client.post(ADD, sent("a.example", place="everybody")).status_code == 403
    client.force_login(make_operator())
    assert client.post(ADD, sent("a.example", place="everybody")).status_code == 302
    assert [source.name for source in bundle_of(house.foreign).blocked] == ["a.example"]
    assert client.post(ADD, sent("a.example")).status_code == 403


@pytest.mark.parametrize("role", [Role.VIEWER, Role.REVIEWER])
def test_role_too_low_is_refused(client: Client, house: House, role: Role) -> None:
    client.force_login(make_member(house.tenant, role))
    assert client.get(ADD).status_code == 403
    assert client.post(ADD, sent("a.example")).status_code == 403


def test_admin_of_one_tenant_blocks_for_no_other(client: Client, house: House) -> None:
    client.force_login(make_member(house.tenant, Role.ADMIN))
    assert client.post(ADD, sent("a.example", place="organisation:acme")).status_code == 403
    assert "Select a valid choice" in text_of(client.post(ADD, sent("a.example", place="tenant:support")))
    assert BlockedSource.objects.count() == 0
