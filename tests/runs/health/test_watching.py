"""GuardOps watches itself: its page, /metrics and who may read it, the watchdog, ids in tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from typing import Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, OperationalError, connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families
from structlog.contextvars import bound_contextvars, get_contextvars

from guardops.tenants.choices import Role
from runs.choices import RuleKind
from runs.health import broker, metrics, vitals
from runs.health.pulse import BEAT, HEARTBEAT, beat, write_pulse
from runs.models import Evaluation, Pulse
from tests.factories import make_member, make_operator, make_tenant
from tests.runs.rows import fold, insert_rows, make_row

TOKEN = "a-token-of-the-scraper"


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(autouse=True)
def quiet_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker runs beside the tests; one that is away has a test of its own."""
    metrics._pages.clear()
    monkeypatch.setattr(vitals, "read_queue", lambda: 3)


class Watchdog(ThreadingHTTPServer):
    """Counts its calls and answers as it is told."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.calls: list[str] = []
        self.status = 200


class _Answering(BaseHTTPRequestHandler):
    server: Watchdog

    def do_GET(self) -> None:
        self.server.calls.append(self.path)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def watchdog(settings: Any) -> Iterator[Watchdog]:
    server = Watchdog()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.HEARTBEAT_URL = f"http://127.0.0.1:{server.server_address[1]}/ping/secret"
    settings.WEBHOOK_ALLOW = [ip_network("127.0.0.0/8")]
    yield server
    server.shutdown()
    server.server_close()


def numbers(client: Client, **headers: str) -> dict[tuple[str, ...], float]:
    """Return what /metrics says, by name and labels."""
    page = client.get("/metrics", headers=headers)
    assert page.status_code == 200, page.content
    families = text_string_to_metric_families(page.content.decode())
    return {
        (sample.name, *sample.labels.values()): sample.value for one in families for sample in one.samples
    }


@pytest.mark.django_db
def test_scraper_on_this_machine_reads_what_is_counted(client: Client, now: datetime) -> None:
    write_pulse(BEAT, now - timedelta(seconds=30))
    found = numbers(client)

    assert (found["guardops_database_up",], found["guardops_queue_tasks",]) == (1, 3)
    assert 30 <= found["guardops_beat_age_seconds",] < 60
    assert found["guardops_guards", "silent"] == 0
    assert ("guardops_fold_lag_seconds",) not in found  # fold has never counted: no zero is made of that


@pytest.mark.django_db(transaction=True)
def test_stopped_runs_are_counted_by_reason_on_closed_days_and_since(client: Client, now: datetime) -> None:
    tenant = make_tenant()
    for days, number in ((3, 2), (0, 5)):
        how = {"tenant_id": tenant.pk, "outcome": "halted", "halt_reason": "no_progress"}
        insert_rows([make_row(now - timedelta(days=days, minutes=1), **how) for _ in range(number)])
    insert_rows([make_row(now - timedelta(minutes=1), tenant_id=tenant.pk)])
    fold(now - timedelta(days=1))
    fold(now)
    found = numbers(client)

    assert found["guardops_stopped_runs_total", "no_progress"] == 7
    assert (found["guardops_runs_total",], found["guardops_runs_halted_total",]) == (8, 7)


@pytest.mark.django_db
def test_metrics_of_a_database_that_is_away_say_so(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(moment: datetime) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(metrics, "read_vitals", away)
    found = numbers(client)

    assert found["guardops_database_up",] == 0
    assert ("guardops_queue_tasks",) not in found


@pytest.mark.parametrize(
    ("token", "production", "asked", "status"),
    [
        ("", False, {}, 200),
        ("", False, {"REMOTE_ADDR": "10.0.0.9"}, 404),
        ("", False, {"HTTP_X_FORWARDED_FOR": "10.0.0.9"}, 404),
        ("", True, {}, 404),
        (TOKEN, True, {"REMOTE_ADDR": "10.0.0.9", "HTTP_AUTHORIZATION": f"Bearer {TOKEN}"}, 200),
        (TOKEN, False, {}, 404),
        (TOKEN, False, {"HTTP_AUTHORIZATION": "Bearer wrong\u00fc"}, 404),
    ],
    ids=["loopback", "elsewhere", "proxied", "production", "token", "no-token", "wrong-token"],
)
@pytest.mark.django_db
def test_metrics_are_for_this_machine_or_who_has_the_token(
    client: Client, settings: Any, token: str, production: bool, asked: dict[str, str], status: int
) -> None:
    settings.METRICS_TOKEN, settings.PRODUCTION = token, production

    assert client.get("/metrics", **asked).status_code == status  # type: ignore[arg-type]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_probe_is_answered_without_a_session(client: Client, path: str) -> None:
    answer = client.get(path)

    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    assert client.post(path).status_code == 405


def test_page_door_without_its_database_lives_and_is_not_ready(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise DatabaseError("away")

    monkeypatch.setattr(connection, "cursor", away)

    assert client.get("/livez").status_code == 200
    assert (client.get("/readyz").status_code, client.get("/readyz")["Retry-After"]) == (503, "2")


@pytest.mark.django_db
def test_watchdog_is_called_each_minute_and_its_silence_is_shown(now: datetime, watchdog: Watchdog) -> None:
    assert beat(now) == ""
    watchdog.status = 500
    later = now + timedelta(minutes=1)
    failed = beat(later)

    assert watchdog.calls == ["/ping/secret"] * 2
    pulse = Pulse.objects.get(name=HEARTBEAT)
    assert (pulse.well_at, pulse.at, pulse.error) == (now, later, failed)
    assert "500" in failed
    assert Pulse.objects.get(name=BEAT).well_at == later


@pytest.mark.django_db
def test_watchdog_is_not_called_while_counting_stands_still(
    now: datetime, watchdog: Watchdog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runs.health.pulse.read_lag", lambda moment: timedelta(minutes=6))

    assert "behind" in beat(now)
    assert watchdog.calls == []


@pytest.mark.django_db
def test_watchdog_inside_is_refused_unless_that_is_allowed(
    now: datetime, watchdog: Watchdog, settings: Any
) -> None:
    settings.WEBHOOK_ALLOW = []

    assert "may not reach" in beat(now)
    assert watchdog.calls == []


@pytest.mark.django_db
def test_late_sign_of_life_does_not_take_a_newer_ones_place(now: datetime) -> None:
    write_pulse(BEAT, now)
    write_pulse(BEAT, now - timedelta(minutes=5), "late")

    assert (Pulse.objects.get().at, Pulse.objects.get().error) == (now, "")


@pytest.mark.django_db
def test_page_says_what_does_not_work_and_what_to_do(
    client: Client, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.force_login(make_operator())
    Evaluation.objects.create(rule=RuleKind.DISK, at=now, since=now, error="OperationalError")
    write_pulse(BEAT, now - timedelta(hours=1))
    monkeypatch.setattr(vitals, "read_queue", lambda: None)
    page = client.get("/settings/health/")
    said = {sign.name: sign for sign in page.context["signs"]}

    assert {name for name, sign in said.items() if sign.state == "danger"} >= {"Beat and worker", "Broker"}
    assert "1\u00a0h ago" in said["Beat and worker"].said
    assert (said["Alert rules"].state, said["Alert rules"].advice) == ("warn", "disk")
    assert all(sign.advice for sign in said.values() if sign.state in ("warn", "danger"))
    assert dict(page.context["versions"])["Database schema"] == "up to date"
    with pytest.raises(CommandError):
        call_command("health")


@pytest.mark.django_db
@pytest.mark.parametrize(("role", "whole", "status"), [("admin", True, 200), ("admin", False, 403)])
def test_page_is_for_admins_of_organisations(client: Client, role: str, whole: bool, status: int) -> None:
    tenant = make_tenant()
    client.force_login(make_member(tenant.organisation if whole else tenant, Role(role)))

    assert client.get("/settings/health/").status_code == status


def test_broker_that_is_away_is_not_asked_again_at_once(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.BROKER_URL = "redis://127.0.0.1:1/0"
    monkeypatch.setattr(broker, "_away", 0.0)
    moments = iter([0.0, 0.0, 5.0])
    asked = []
    real = broker._ask
    monkeypatch.setattr(broker, "_ask", lambda: asked.append(1) or real())

    assert broker.read_queue(lambda: next(moments)) is None
    assert broker.read_queue(lambda: next(moments)) is None
    assert len(asked) == 1


@pytest.mark.django_db(transaction=True)
def test_request_id_follows_into_the_task_and_the_task_that_it_asks_for() -> None:
    seen: list[tuple[str, str]] = []
    done = threading.Event()
    own = Celery("tests", broker="memory://", set_as_current=False)

    @own.task(name="tests.second")
    def second() -> None:
        seen.append(("second", get_contextvars()["request_id"]))
        done.set()

    @own.task(name="tests.first")
    def first() -> None:
        seen.append(("first", get_contextvars()["request_id"]))
        second.delay()

    with start_worker(own, perform_ping_check=False, pool="solo"):
        with bound_contextvars(request_id="a-request"):
            first.delay()
        assert done.wait(20)

    assert seen == [("first", "a-request"), ("second", "a-request")]
