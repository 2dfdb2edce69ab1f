"""The client for addresses that people typed in: what it connects to, and what receivers may do to it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from pytest_django import Settings

from runs.notify import client

from .http_sink import Answering, Sink

# Everything that leads inside, however it is written: 25 addresses.
INSIDE = [
    "https://127.0.0.1/",
    "https://127.8.8.8:8443/",
    "https://localhost/",
    "https://0.0.0.0/",
    "https://0/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://017700000001/",
    "https://10.0.0.1/",
    "https://172.31.255.255/",
    "https://192.168.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://100.64.0.1/",
    "https://192.0.0.192/",
    "https://198.18.0.1/",
    "https://224.0.0.1/",
    "https://255.255.255.255/",
    "https://[::1]/",
    "https://[::]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[64:ff9b::10.0.0.1]/",
    "https://[2002:7f00:1::]/",
    "https://[fd00:ec2::254]/",
    "https://[fe80::1]/",
]


@pytest.mark.parametrize("url", INSIDE)
def test_an_address_inside_is_refused(url: str) -> None:
    with pytest.raises(client.RefusedAddress):
        client.request("POST", url, body=b"{}")


@pytest.mark.parametrize(
    "address",
    [
        *("192.0.2.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1", "203.0.113.9"),
        *("240.0.0.1", "2001::1", "2001:db8::1", "2620:4f:8000::1", "3fff::1", "64:ff9b:1::1", "100::1"),
    ],
)
def test_an_address_of_a_special_registry_is_no_public_one(address: str) -> None:
    assert not client.is_public(ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::1.1.1.1"])
def test_an_address_on_the_internet_is_public(address: str) -> None:
    assert client.is_public(ip_address(address))
    client.judge(ip_address(address), https=True)


def test_the_internet_is_reached_by_https_alone() -> None:
    with pytest.raises(client.RefusedAddress, match="https"):
        client.judge(ip_address("1.1.1.1"), https=False)


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.com/", "file:///etc/passwd", "//example.com/", "", "https://", "https:///x"),
        *("https://user:pass@example.com/", "https://example.com:99999/", "https://example.com:0/"),
        *(
            "https://exa mple.com/",
            "https://example.com/\r\nHost: x",
            "https://\ud800.example/",
            "https://[::1",
        ),
        *("https://example.com/ü", "https://" + "a" * 2_000),
    ],
)
def test_what_is_no_web_address_is_said_to_be_none(url: str) -> None:
    with pytest.raises(client.InvalidAddress):
        client.target_of(url)


def test_a_path_which_may_be_a_secret_is_not_shown() -> None:
    assert client.target_of("https://Hooks.Example.com:8443/T0/s3cret?x=1").shown == (
        "https://hooks.example.com:8443/…"
    )


def test_what_the_installation_allows_is_reached(sink: Sink) -> None:
    answer = client.request("POST", sink.url, body=b'{"a": 1}', headers={"X-Own": "yes"})
    assert (answer.status, answer.taken, answer.text) == (202, True, "thank you")
    (posted,) = sink.posted
    assert (posted.path, posted.body, posted.headers["x-own"]) == ("/hook/secret-path", b'{"a": 1}', "yes")


def test_the_answer_of_an_inside_server_is_not_passed_on(sink: Sink) -> None:
    sink.answering = Answering(200, b"the admin password is hunter2")
    assert client.request("POST", sink.url).shown == "It answered 200."


def test_the_connected_address_is_judged_and_not_the_name(
    sink: Sink, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves to a public address for whoever looks first, and inside for whoever connects."""
    settings.WEBHOOK_ALLOW = []
    asked = []

    def rebinding(host: str, port: int, **options: Any) -> list[Any]:
        asked.append(host)
        address = "1.1.1.1" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    socket.getaddrinfo("rebinding.example", 443)  # the first look
    port = sink.server_address[1]
    with pytest.raises(client.RefusedAddress):
        client.request("POST", f"https://rebinding.example:{port}/")
    assert asked == ["rebinding.example"] * 2
    assert sink.posted == []


def test_a_redirect_is_not_followed(sink: Sink) -> None:
    sink.answering = Answering(302, headers={"Location": sink.url + "/elsewhere"})
    assert client.request("POST", sink.url).status == 302
    assert len(sink.posted) == 1


def test_a_proxy_of_the_environment_is_not_asked(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert client.request("POST", sink.url).taken


def test_a_long_answer_is_read_to_its_cap(sink: Sink) -> None:
    sink.answering = Answering(200, b"x" * 5_000_000)
    assert len(client.request("POST", sink.url).text) == client.MAX_ANSWER


def test_nobody_there_is_said_so(sink: Sink) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(client.Unreachable, match="Nobody listens"):
        client.request("POST", f"http://127.0.0.1:{port}/")


@pytest.fixture
def dripping() -> Iterator[int]:
    """A server that sends a byte of its answer now and then, for ever; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        over = threading.Event()

        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                while not over.wait(0.05):
                    try:
                        connection.send(b"H")
                    except OSError:
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        yield listening.getsockname()[1]
        over.set()
        thread.join()


def test_drops_of_an_answer_do_not_put_off_the_deadline(sink: Sink, dripping: int) -> None:
    began = time.monotonic()
    with pytest.raises(client.Unreachable):
        client.request("POST", f"http://127.0.0.1:{dripping}/", seconds=0.4)
    assert time.monotonic() - began < 2


def test_plain_http_where_tls_is_expected_is_unreachable(sink: Sink) -> None:
    with pytest.raises(client.Unreachable, match="TLS"):
        client.request("POST", sink.url.replace("http:", "https:"))


def test_a_network_in_the_allow_list_opens_no_other(settings: Settings) -> None:
    settings.WEBHOOK_ALLOW = [ip_network("10.1.0.0/16")]
    client.judge(ip_address("10.1.2.3"), https=False)
    with pytest.raises(client.RefusedAddress):
        client.judge(ip_address("10.2.0.1"), https=True)
