from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardops.guard.domains import (
    listing_key,
    normal_host,
    place_of,
    registrable_domain,
    source_name,
    source_of,
    urls_in,
)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.example.com", "example.com"),
        ("EXAMPLE.com.", "example.com"),
        ("h9.trap.co.uk", "trap.co.uk"),
        ("co.uk", None),
        ("com", None),
        ("localhost", None),
        ("alice.github.io", "alice.github.io"),
        ("www.alice.github.io", "alice.github.io"),
        ("github.io", None),
        ("bücher.example", "xn--bcher-kva.example"),
        ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
        ("www.ck", "www.ck"),
        ("1.2.3.4", None),
        ("::1", None),
        ("[2001:DB8::1]", None),
        ("", None),
        ("a..b", None),
        ("sp ace.example", None),
    ],
)
def test_registrable_domain(host: str, domain: str | None) -> None:
    assert registrable_domain(host) == domain


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("16909060", "1.2.3.4"),
        ("0x01.2.3.4", "1.2.3.4"),
        ("[2001:DB8:0::1]", "2001:db8::1"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("github.io", "github.io"),
        ("deep.sub.example.com", "example.com"),
        ("under_score.example.com", "example.com"),
        ("", None),
    ],
)
def test_source_name_takes_addresses_and_bare_hosts_as_they_are(host: str, name: str | None) -> None:
    assert source_name(host) == name


@given(st.text(max_size=60))
def test_every_text_has_an_idempotent_name_or_none(text: str) -> None:
    host, domain, name = normal_host(text), registrable_domain(text), source_name(text)
    assert host is None or normal_host(host) == host
    assert domain is None or registrable_domain(domain) == domain
    assert name is None or source_name(name) == name


@given(st.lists(st.from_regex(r"[a-z]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True), min_size=1, max_size=4))
def test_a_registrable_domain_is_the_end_of_its_host(labels: list[str]) -> None:
    host = ".".join(labels)
    domain = registrable_domain(host)
    assert domain is None or host == domain or host.endswith("." + domain)


@pytest.mark.parametrize(
    "url",
    [
        "https://good.example@evil.example/",
        "https://evil.example\\@good.example/",
        "http://www.evil.example:8080/a?b#c",
        "HTTPS://EVIL.example",
        " https://evil.example/ ",
        "https://ｅｖｉｌ.example/",
        "https://%65vil.example/",
    ],
)
def test_a_disguised_url_counts_for_the_host_it_reaches(url: str) -> None:
    assert source_of(url) == "evil.example"


@pytest.mark.parametrize(
    "text", ["ftp://a.example/", "example.com", "https://", "http:/x", "https://a:99999/", ""]
)
def test_what_is_no_http_url_has_no_source(text: str) -> None:
    assert source_of(text) is None
    assert place_of(text) is None


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("http://a\x00.1/", None),
        ("http://\ud8009/", None),
        ("http://a.example/?q=\ud800", "a.example"),
    ],
)
def test_half_a_character_or_a_null_in_a_url_is_no_fault(url: str, source: str | None) -> None:
    assert source_of(url) == source


def test_a_listing_is_the_url_without_its_page_keys_and_fragment() -> None:
    key = listing_key("https://shop.example/opts?color=red&page=1#top")
    assert key == "https://shop.example/opts?color=red"
    for page_key in ("page", "p", "offset", "start", "cursor", "after", "limit"):
        assert listing_key(f"https://shop.example/opts?{page_key}=7&color=red") == key
    assert listing_key("https://shop.example/opts?color=blue&page=1") != key


def test_listing_key_is_idempotent() -> None:
    key = listing_key("https://Shop.example:8443/a b?x=%20y&p=2")
    assert key is not None
    assert listing_key(key) == key


def test_urls_are_found_at_any_depth_of_the_arguments() -> None:
    args = {
        "a": "https://one.example",
        "b": [{"c": " HTTP://two.example "}],
        "d": "see https://no.example",
        "e": 5,
    }
    assert urls_in(args) == ["https://one.example", "HTTP://two.example"]
