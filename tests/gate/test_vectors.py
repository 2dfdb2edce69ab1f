"""The examples in the gate's document: whoever writes a guard in another language holds it to these."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from guardops.gate.openapi import vectors
from guardops.guard.wire import Event
from guardops.tenants.models import Tenant
from runs.models import Checkpoint, LiveRun, RefusedWork, Run
from tests.factories import make_tenant

from .conftest import bearer

Gate = TestClient[Any]
URL = "/api/v1/events"
UNUSED = {"external_id"}  # a run has one of the two ids
KINDS = ["checkpoint.opened", "run.ended", "run.heartbeat", "run.started", "work.refused"]


def unset(value: Any, place: str = "") -> list[str]:
    """Return the fields of a struct, and of the first of each list in it, that have their default."""
    found: list[str] = []
    for field in msgspec.structs.fields(value):
        inner = getattr(value, field.name)
        if inner == field.default or inner in ([], {}):
            found.append(f"{place}{field.name}")
        inner = inner[0] if isinstance(inner, list) and inner else inner
        if isinstance(inner, msgspec.Struct):
            found += unset(inner, f"{place}{field.name}.")
    return [name for name in found if name not in UNUSED]


@pytest.fixture
def acme(transactional_db: None) -> Tenant:
    return make_tenant("acme")


def test_there_is_one_of_each_type() -> None:
    assert list(vectors()) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_vector_has_every_field_and_means_what_it_says(kind: str) -> None:
    event = msgspec.convert(vectors()[kind], Event, strict=False)
    assert unset(event) == []
    said = msgspec.json.decode(msgspec.json.encode(event))
    assert msgspec.json.encode(said, order="sorted") == msgspec.json.encode(vectors()[kind], order="sorted")


@pytest.mark.parametrize("kind", KINDS)
def test_gate_takes_each_vector_once(gate: Gate, acme: Tenant, kind: str) -> None:
    key = bearer(acme)
    first = gate.post(URL, json=[vectors()[kind]], headers=key).json()
    assert (first["accepted"], first["results"], first["unknown_fields"]) == (1, [], 0)
    again = gate.post(URL, json=[vectors()[kind]], headers=key).json()
    assert (again["accepted"], again["duplicates"], again["unknown_fields"]) == (0, 1, 0)


def test_vectors_together_are_one_run_that_ended(gate: Gate, acme: Tenant) -> None:
    reply = gate.post(URL, json=list(vectors().values()), headers=bearer(acme)).json()
    assert (reply["accepted"], reply["results"]) == (5, [])
    assert Run.objects.get().announced
    assert not LiveRun.objects.exists()
    assert RefusedWork.objects.get().root_task_id == "ticket-4711"
    assert Checkpoint.objects.get().run_id == Run.objects.get().run_id
