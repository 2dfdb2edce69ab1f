from __future__ import annotations

import re
from typing import Any, get_args

import msgspec
import pytest
from litestar.testing import TestClient
from msgspec import Struct, structs

from guardops.gate.app import make_app
from guardops.gate.openapi import document, vectors
from guardops.gate.openapi_bundles import example
from guardops.gate.problems import KINDS
from guardops.guard.bundle import Bundle, canonical, read_bundle
from guardops.guard.replies import BundlesAsked
from guardops.guard.wire import Event
from guardops.tenants.choices import Scope
from guardops.tenants.models import Tenant
from policies.pull.fleet import read_applied

from .conftest import bearer

Gate = TestClient[Any]
UNLISTED = {"/api/v1/docs.css", "/healthz", "/metrics"}
PULLS = {("/api/v1/bundle", "GET"), ("/api/v1/bundles", "POST")}  # they tell their methods apart themselves


def test_document_lists_every_route(gate: Gate) -> None:
    routes = {(route.path, method) for route in make_app().routes for method in route.methods}
    routes = {(path.replace(":str}", "}"), method) for path, method in routes}
    listed = {(path, method.upper()) for path, item in document()["paths"].items() for method in item}
    served = {
        (path, method)
        for path, method in routes
        if method not in {"HEAD", "OPTIONS"} and path not in UNLISTED
    }
    assert listed == served | PULLS
    assert {path for path, _ in PULLS} <= {route.path for route in make_app().routes}
    assert gate.get("/api/v1/openapi.json").content == msgspec.json.encode(document())


@pytest.mark.parametrize("kind", get_args(Event))
def test_document_names_every_field_of_an_event(kind: type[Struct]) -> None:
    schema = document()["components"]["schemas"][kind.__name__]
    assert set(schema["properties"]) == {"type", *kind.__struct_fields__}
    needed = {field.encode_name for field in structs.fields(kind) if field.required}
    assert set(schema["required"]) == {"type", *needed}


def test_document_has_an_example_of_each_type() -> None:
    content = document()["paths"]["/api/v1/events"]["post"]["requestBody"]["content"]["application/json"]
    types = document()["components"]["schemas"]["Event"]["discriminator"]["mapping"]
    assert set(content["examples"]) == set(vectors()) == set(types)


def test_every_reference_resolves() -> None:
    text = str(document())
    names = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert names <= set(document()["components"]["schemas"])


def test_document_is_openapi() -> None:
    import schemathesis

    schema = schemathesis.openapi.from_dict(document())
    assert {operation.ok().label for operation in schema.get_all_operations()} == {
        "POST /api/v1/events",
        "GET /api/v1/bundle",
        "POST /api/v1/bundles",
        "GET /api/v1/checkpoints/{checkpoint_id}",
        "POST /api/v1/checkpoints/{checkpoint_id}/consume",
        "GET /api/v1/openapi.json",
        "GET /api/v1/docs",
        "GET /livez",
        "GET /readyz",
    }


def test_example_of_a_bundle_is_one() -> None:
    bundle = read_bundle(canonical(example()), tenant="acme")
    assert set(example()) == set(Bundle.__struct_fields__)
    sent = document()["paths"]["/api/v1/bundles"]["post"]["requestBody"]["content"]["application/json"]
    asked = msgspec.convert(sent["example"], BundlesAsked)
    assert asked.tenants["acme"].etag == bundle.etag
    assert read_applied(asked.tenants["acme"].applied).revision == bundle.revision


def test_document_names_the_headers_of_a_pull(gate: Gate, tenant: Tenant) -> None:
    pull = document()["paths"]["/api/v1/bundle"]["get"]
    answered = gate.get("/api/v1/bundle", headers=bearer(tenant, scopes=(Scope.BUNDLE_READ,))).headers
    described = {name.lower() for name in pull["responses"]["200"]["headers"]}
    always = {"content-type", "content-length", "date", "guardops-request-id"}
    guarding = {"x-content-type-options", "content-security-policy", "referrer-policy"}
    assert set(answered) - always - guarding == described


def test_page_shows_every_problem_and_loads_its_own_style_only(gate: Gate) -> None:
    response = gate.get("/api/v1/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert all(f'<tr id="{code}">' in response.text for code in KINDS)
    assert all(f"<code>{kind}</code>" in response.text for kind in vectors())
    assert "<script" not in response.text
    assert re.findall(r'(?:src|href)="([^"]+)"', response.text) == [
        "/api/v1/docs.css",
        "/api/v1/openapi.json",
    ]
    assert gate.get("/api/v1/docs.css").headers["content-type"].startswith("text/css")
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
