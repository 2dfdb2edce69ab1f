"""Pages of channels: made, tried out, changed and removed by who may, and no secret shown twice."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from guardops.tenants.choices import Role
from guardops.tenants.models import Tenant, User
from runs.models import Channel, Notification
from runs.notify.addresses import (
    AlertmanagerAddress,
    MailAddress,
    PagerDutyAddress,
    WebhookAddress,
    opened,
)
from runs.notify.channels import Place
from runs.notify.relay import relay_due
from tests.factories import make_member, make_operator, make_tenant

from .conftest import Make, open_one
from .http_sink import Answering, Sink

pytestmark = pytest.mark.django_db

NEW = "/alerts/channels/new/"
COMMON = {"severity": "warning", "incidents": "on", "endings": "on", "group_s": "20", "repeat_h": "4"}
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")


@pytest.fixture
def admin(client: Client, tenant: Tenant) -> User:
    person = make_member(tenant, Role.ADMIN)
    client.force_login(person)
    return person


def post(client: Client, /, **data: Any) -> Any:
    return client.post(NEW, {"name": "on call", "place": "tenant:acme", **COMMON, **data})


def edit(client: Client, channel: Channel, **data: Any) -> Any:
    given = {"name": "on call", "version": channel.version, "enabled": "on", **COMMON, **data}
    return client.post(f"/alerts/channels/{channel.pk}/", given)


def text(response: Any) -> str:
    return str(response.content.decode())


def address_of(channel: Channel) -> Any:
    return opened(Channel.objects.get(pk=channel.pk).secret)


def test_a_webhook_is_made_and_its_secret_shown_once(client: Client, admin: User, sink: Sink) -> None:
    response = post(client, kind="webhook", url=sink.url, decisions="on")
    (secret,) = set(SECRET.findall(text(response)))
    made = Channel.objects.get()
    assert (made.kind, made.decisions, made.tenant and made.tenant.slug) == ("webhook", True, "acme")
    assert address_of(made).secrets[0].secret == secret
    for url in ("/alerts/channels/", f"/alerts/channels/{made.pk}/"):
        page = text(client.get(url))
        assert "on call" in page
        assert not SECRET.search(page)
        assert "secret-path" not in page


def test_a_test_says_what_was_sent_and_answered(client: Client, admin: User, channel: Make) -> None:
    made = channel()
    page = text(client.post(f"/alerts/channels/{made.pk}/test/", follow=True))
    assert "“Test from GuardOps” was sent. It answered 202." in page
    row = Notification.objects.get()
    assert (row.kind, row.state, row.attempts) == ("test", "sent", 1)


def test_a_test_that_fails_says_why_and_is_not_tried_again(
    client: Client, admin: User, channel: Make, sink: Sink
) -> None:
    made = channel()
    sink.answering = Answering(401)
    page = text(client.post(f"/alerts/channels/{made.pk}/test/", follow=True))
    assert "was not taken. It answered 401." in page
    assert Notification.objects.get().state == "given_up"


def test_a_channel_that_is_switched_off_can_be_tried_out(
    client: Client, admin: User, channel: Make, sink: Sink
) -> None:
    made = channel(enabled=False)
    client.post(f"/alerts/channels/{made.pk}/test/")
    assert len(sink.posted) == 1


def test_mail_addresses_are_read_one_a_line_and_once_each(client: Client, admin: User) -> None:
    post(client, kind="mail", to="kim@example.com\nlee@example.com, kim@example.com\n")
    assert address_of(Channel.objects.get()) == MailAddress(("kim@example.com", "lee@example.com"))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({"kind": "mail", "to": "kim"}, "is no e-mail address"),
        ({"kind": "mail", "to": "a@b.example\r\nBcc: evil"}, "is no e-mail address"),
        ({"kind": "mail", "to": "\n".join(f"p{n}@example.com" for n in range(21))}, "At most 20"),
        ({"kind": "webhook", "url": "https://10.0.0.1/"}, "may not reach"),
        ({"kind": "webhook", "url": "http://1.1.1.1/"}, "only https"),
        ({"kind": "webhook", "url": "https://a:b@example.com/"}, "a user or a password"),
        ({"kind": "webhook", "url": "javascript:alert(1)"}, "Begin the address"),
        ({"kind": "webhook", "url": "https://example.com/\0"}, "Null characters"),
        ({"kind": "webhook", "url": "https://example.com/", "group_s": "7"}, "valid choice"),
        ({"kind": "webhook", "url": "https://example.com/", "severity": "worst"}, "valid choice"),
        ({"kind": "webhook", "url": "https://example.com/", "place": "installation"}, "valid choice"),
        ({"kind": "webhook", "url": "https://example.com/", "place": "tenant:foreign"}, "valid choice"),
        (
            {"kind": "pagerduty", "routing_key": "has spaces", "url": "https://example.com/"},
            "letters and digits",
        ),
        ({"kind": "alertmanager", "url": "https://example.com/", "token": "a b"}, "no spaces"),
        ({"kind": "apprise", "url": "json://127.0.0.1/"}, "no address of one of the services"),
        ({"kind": "apprise", "url": "slack://a/b/c?template=/etc/passwd"}, "Leave out what follows"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["kind"],
)
def test_what_makes_no_sense_is_said_at_its_field(
    client: Client, admin: User, data: dict[str, str], complaint: str
) -> None:
    make_tenant("foreign")
    response = post(client, **data)
    assert response.status_code == 200
    assert complaint in text(response)
    assert not Channel.objects.exists()


def test_an_unknown_kind_asks_for_one(client: Client, admin: User) -> None:
    assert "How is it told?" in text(client.get(NEW, {"kind": "pigeon"}))
    assert "How is it told?" in text(post(client, kind="\0"))


def test_a_secret_that_is_left_empty_is_kept(client: Client, admin: User, channel: Make, sink: Sink) -> None:
    made = channel(PagerDutyAddress("R0UT1NGKEY", sink.url))
    assert edit(client, made, name="renamed", url=sink.url, routing_key="").status_code == 302
    assert address_of(made) == PagerDutyAddress("R0UT1NGKEY", sink.url)
    made.refresh_from_db()
    assert (made.name, made.version) == ("renamed", 2)


def test_an_edit_without_an_address_signs_with_the_same_secret(
    client: Client, admin: User, channel: Make, sink: Sink
) -> None:
    made = channel()
    before = address_of(made)
    edit(client, made, url="", severity="info")
    assert address_of(made) == before
    edit(client, Channel.objects.get(), url=sink.url + "/other")
    assert address_of(made) == WebhookAddress(sink.url + "/other", before.secrets)


def test_a_token_is_never_sent_to_another_address(
    client: Client, admin: User, channel: Make, sink: Sink
) -> None:
    made = channel(AlertmanagerAddress(sink.url, "t0ken"))
    edit(client, made, url="", token="")
    assert address_of(made) == AlertmanagerAddress(sink.url, "t0ken")
    edit(client, Channel.objects.get(), url="https://example.com/", token="")
    assert address_of(made) == AlertmanagerAddress("https://example.com/", "")


def test_an_edit_that_was_overtaken_changes_nothing(client: Client, admin: User, channel: Make) -> None:
    made = channel()
    edit(client, made, name="first", url="")
    response = edit(client, made, name="second", url="")
    assert response.status_code == 409
    assert "Somebody else has changed" in text(response)
    assert Channel.objects.get().name == "first"


def test_a_new_secret_is_shown_once_and_the_old_one_signs_on(
    client: Client, admin: User, channel: Make
) -> None:
    made = channel()
    old = address_of(made).secrets[0].secret
    page = text(client.post(f"/alerts/channels/{made.pk}/secret/"))
    (shown,) = set(SECRET.findall(page))
    assert [signer.secret for signer in address_of(made).secrets] == [shown, old]
    assert "For a day" in page


def test_what_is_not_signed_has_no_secret_to_change(client: Client, admin: User, channel: Make) -> None:
    made = channel(MailAddress(("kim@example.com",)))
    assert client.post(f"/alerts/channels/{made.pk}/secret/").status_code == 404


def test_a_removed_channel_is_gone_and_forgets_its_address(
    client: Client, admin: User, channel: Make, tenant: Tenant
) -> None:
    made = channel()
    open_one(tenant)
    assert "Remove on call" in re.sub(r"</?bdi>", "", text(client.get(f"/alerts/channels/{made.pk}/remove/")))
    client.post(f"/alerts/channels/{made.pk}/remove/")
    made.refresh_from_db()
    assert (bytes(made.secret), made.enabled) == (b"", False)
    assert client.get(f"/alerts/channels/{made.pk}/").status_code == 404
    assert relay_due().dropped == 1


def test_an_unreadable_address_is_said_and_can_be_entered_again(
    client: Client, admin: User, channel: Make, sink: Sink
) -> None:
    made = channel()
    Channel.objects.filter(pk=made.pk).update(secret=b"written with another key")
    assert "can&#x27;t be read any more" in text(client.get(f"/alerts/channels/{made.pk}/")).replace(
        "can't", "can&#x27;t"
    )
    assert "This field is required" in text(edit(client, made, url=""))
    edit(client, made, url=sink.url)
    assert address_of(made).url == sink.url


@pytest.mark.parametrize("number", ["0", "99999999999999999999999"])
def test_a_channel_that_is_not_there_is_not_found(client: Client, admin: User, number: str) -> None:
    assert client.get(f"/alerts/channels/{number}/").status_code == 404


def test_operators_manage_the_channels_of_the_installation_and_no_others(
    client: Client, channel: Make, tenant: Tenant
) -> None:
    own, other = channel(place=Place(), name="duty"), channel()
    client.force_login(make_operator())
    page = text(client.get("/alerts/channels/"))
    assert "duty" in page
    assert "on call" not in page
    assert client.get(f"/alerts/channels/{own.pk}/").status_code == 200
    assert client.get(f"/alerts/channels/{other.pk}/").status_code == 403
    client.force_login(make_member(tenant, Role.ADMIN))
    assert client.get(f"/alerts/channels/{own.pk}/").status_code == 404


def test_the_list_counts_its_queries(
    client: Client, admin: User, channel: Make, django_assert_max_num_queries: Any
) -> None:
    for number in range(5):
        channel(name=f"channel {number}")
    with django_assert_max_num_queries(12):
        client.get("/alerts/channels/")


def test_the_files_hold_what_the_page_lists_and_no_secret(
    client: Client, admin: User, channel: Make, tenant: Tenant
) -> None:
    made = channel(repeat_h=0)
    open_one(tenant)
    relay_due()
    channels = json.loads(b"".join(client.get("/alerts/channels/export.json").streaming_content))  # type: ignore[attr-defined]
    assert channels["complete"] is True
    assert [(row["name"], row["tenant"], row["enabled"]) for row in channels["rows"]] == [
        ("on call", "acme", True)
    ]
    deliveries = client.get(f"/alerts/channels/{made.pk}/deliveries.csv")
    lines = b"".join(deliveries.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert len(lines) == 2
    assert "opened,1,sent,1" in lines[1]


def test_the_audit_trail_tells_of_a_changed_secret_without_it(
    client: Client, admin: User, channel: Make, tenant: Tenant
) -> None:
    made = channel()
    client.post(f"/alerts/channels/{made.pk}/secret/")
    page = text(client.get("/settings/audit/"))
    assert "Changed the address or a secret of the channel" in page
    assert not SECRET.search(page)
