"""What the measures promise, from the events that guards send to the numbers that people read."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
from django.db import connection
from django.test import Client
from litestar.testing import TestClient

from guardops.gate.app import make_app
from guardops.guard.events import Outcome, RunEnded, RunHeartbeat, RunStarted
from guardops.guard.ids import uuid7
from guardops.guard.scenarios import exports
from guardops.guard.scenarios.roster import EXPORTS
from guardops.guard.scenarios.tree import Tree
from guardops.guard.session import Guard
from guardops.guard.wire import Event
from guardops.tenants import keys
from guardops.tenants.models import Tenant
from runs.models import Run
from runs.partitions import unix_ms
from runs.querysets import COST_PARTS
from runs.reports.metrics import Overview, Scope, Window
from runs.reports.overview import read_overview
from runs.reports.windows import parse_window
from tests.factories import make_key, make_member, make_run_event, make_tenant
from tests.runs.rows import fold, insert_rows, random_rows

pytestmark = pytest.mark.django_db(transaction=True)

ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu"]
SPRING = datetime(2026, 3, 29, 1, tzinfo=UTC)
"""Berlin's clocks go forward: its day has 23 hours."""
AUTUMN = datetime(2026, 10, 25, 1, tzinfo=UTC)
"""Berlin's clocks go back: its day has 25 hours."""


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant("acme")


@pytest.fixture
def post(tenant: Tenant) -> Iterator[Any]:
    """Posts events to the real gate with a key of the tenant, as a guard does."""
    keys.forget()
    _, plain = make_key(tenant, now=datetime.now(UTC))
    with TestClient(make_app(), raise_server_exceptions=False) as gate:

        def send(*events: Event) -> dict[str, Any]:
            response = gate.post(
                "/api/v1/events",
                content=msgspec.json.encode(events),
                headers={"Authorization": f"Bearer {plain}", "Content-Type": "application/json"},
            )
            assert response.status_code == 200, response.text
            reply: dict[str, Any] = response.json()
            return reply

        yield send


def count_all(now: datetime) -> None:
    while fold(now).pending:
        pass


def look(tenant: Tenant, now: datetime, **params: str) -> Overview:
    return read_overview(Scope((tenant.pk,)), parse_window(params, now, params.get("zone", "UTC")), now=now)


def page_of(tenant: Tenant, zone: str = "UTC", **params: str) -> str:
    client = Client()
    client.force_login(make_member(tenant))
    client.cookies["zone"] = zone
    response = client.get(f"/?{urlencode(params)}")
    assert response.status_code == 200
    return response.content.decode()


def tile(page: str, name: str) -> str:
    """Return what the tile of that name says, without markup."""
    found = re.search(rf'<h2 class="tile-name">{name}</h2>(.*?)</div>', page, re.S)
    assert found is not None
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[1])).strip()


# -- attempts ---------------------------------------------------------------------------------------------


def attempts(first_at: datetime, second_at: datetime) -> list[RunEnded]:
    """Return attempt 1, which escalates, its child, and attempt 2, which completes the task."""
    first = make_run_event(
        ended_at=first_at,
        outcome=Outcome.ESCALATED,
        halt_reason="tool_auth_error",
        answer="none",
        cost=Decimal("0.11"),
    )
    child = make_run_event(
        ended_at=first_at - timedelta(seconds=5),
        started_at=first_at - timedelta(seconds=20),
        parent_run_id=first.run_id,
        root_task_id=str(first.run_id),
        cost=Decimal("0.07"),
    )
    second = make_run_event(
        ended_at=second_at,
        root_task_id=str(first.run_id),
        resumed_from=first.run_id,
        attempt=2,
        cost=Decimal("0.05"),
    )
    return [first, child, second]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_attempt_1_today_a_child_attempt_2_tomorrow_one_completed_task_and_the_split_sums_to_the_cost(
    post: Any, tenant: Tenant, order: Sequence[int]
) -> None:
    now = datetime.now(UTC)
    today, tomorrow = now - timedelta(hours=26), now - timedelta(hours=1)
    events = attempts(today, tomorrow)
    for folded, place in enumerate(order):
        assert post(events[place])["accepted"] == 1
        if folded == 1:
            count_all(now)  # the last one is in the tail
    assert post(*events)["duplicates"] == 3

    both = look(tenant, now, range="7d").tiles.now
    assert (both.runs, both.completed, both.eligible) == (3, 1, 1)
    parts = [getattr(both, f"cost_{part}") for part in COST_PARTS]
    assert sum(parts) == both.cost == Decimal("0.23")
    assert (both.cost_useful, both.cost_halted) == (Decimal("0.12"), Decimal("0.11"))
    assert both.repeated_cost == Decimal("0.05")
    by_day = [
        look(tenant, now, **{"from": (at - timedelta(hours=1)).isoformat(), "to": at.isoformat()}).tiles.now
        for at in (today + timedelta(minutes=15), tomorrow + timedelta(minutes=15))
    ]
    assert [(day.runs, day.completed) for day in by_day] == [(2, 0), (1, 1)]
    page = page_of(tenant, range="7d")
    assert tile(page, "Completed tasks").startswith("1 ")
    assert "of 1 task" in tile(page, "Completed tasks")
    assert re.search(r'<h2 class="tile-name">Cost per completed task</h2>.*?\$0\.23', page, re.S)


# -- provider failures ------------------------------------------------------------------------------------


def storms(count: int, now: datetime) -> list[RunEnded]:
    """Return runs of the real guard that die on 503s, spread over the last two hours."""
    runs = []
    for number in range(count):
        guard = Guard(EXPORTS.policy, jitter=lambda: 0.0)
        started_at = now - timedelta(seconds=7_200 - number * 30)
        tree = Tree(guard, EXPORTS.name, EXPORTS.agent, "hauler-1.5", make_id=_any_id)
        runs.append(tree.play(exports.storms_a_failing_service(random.Random(number)), started_at))
    return runs


def _any_id(started_at: datetime, path: str) -> UUID:
    return uuid7(unix_ms(started_at), random.getrandbits(74))


@pytest.mark.parametrize("folded", [True, False], ids=["folded", "tail"])
def test_200_runs_that_die_on_503s_leave_the_loop_rate_as_it_was(
    post: Any, tenant: Tenant, folded: bool
) -> None:
    now = datetime.now(UTC)
    ended_at = now - timedelta(hours=1)
    usual = [make_run_event(ended_at=ended_at) for _ in range(36)]
    looped = {"outcome": Outcome.HALTED, "halt_reason": "repeated_call", "answer": "none"}
    usual += [make_run_event(ended_at=ended_at, **looped) for _ in range(4)]
    post(*usual)
    before = look(tenant, now, range="6h").tiles.now
    assert before.loop_rate == pytest.approx(0.1)

    died = storms(200, now)
    assert {run.first_reason for run in died} == {"tool_retry_exhausted"}
    assert post(*died)["accepted"] == 200
    if folded:
        count_all(now)

    after = look(tenant, now, range="6h").tiles.now
    assert after.runs == 240
    assert after.provider_failures == 200
    assert after.loop_rate == before.loop_rate
    assert after.loop_cost == before.loop_cost
    page = page_of(tenant, range="6h")
    assert tile(page, "Loop rate").startswith("10.0 %")
    assert "200 provider failures" in tile(page, "Loop rate")


# -- days -------------------------------------------------------------------------------------------------


def local_days(tenant: Tenant, window: Window, column: str = "1") -> dict[date, int]:
    """Count runs by the day on the viewer's calendar, straight from the table."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT (at AT TIME ZONE %s)::date, sum({column}) FROM run"
            " WHERE tenant_id = %s AND at >= %s AND at < %s GROUP BY 1",
            [window.zone, tenant.pk, window.start, window.end],
        )
        return {day: int(runs) for day, runs in cursor.fetchall()}


def insert_around(tenant: Tenant, change: datetime, count: int, *, seed: int = 5) -> None:
    """Insert runs of the days round a change of clocks, half of them within hours of it."""
    rng = random.Random(seed)
    near = random_rows(rng, count // 2, change - timedelta(hours=6), change + timedelta(hours=6))
    wide = random_rows(rng, count // 2, change - timedelta(days=5), change + timedelta(days=4))
    insert_rows(row | {"tenant_id": tenant.pk} for row in near + wide)


@pytest.mark.parametrize("change", [SPRING, AUTUMN], ids=["spring", "autumn"])
def test_days_in_every_zone_with_a_change_of_clocks_add_up_folded_and_in_the_tail(
    tenant: Tenant, change: datetime
) -> None:
    now = change + timedelta(days=5, minutes=7)
    insert_around(tenant, change, 400)

    def check() -> None:
        for zone, given in itertools.product(ZONES, ("14d", "30d")):
            found = look(tenant, now, range=given, zone=zone)
            _check_days(found, local_days(tenant, found.window))
        ends = {"from": change - timedelta(hours=3), "to": change + timedelta(hours=3)}
        quarters = look(tenant, now, **{name: at.isoformat() for name, at in ends.items()})
        _check_quarters(quarters, tenant)

    check()  # all in the tail
    count_all(now - timedelta(days=5))  # quarters only: no day of it has closed
    check()
    insert_around(tenant, change, 100, seed=6)
    count_all(now)  # hours and days, too
    check()
    insert_around(tenant, change, 50, seed=7)
    check()  # some of both


def _check_days(found: Overview, expected: dict[date, int]) -> None:
    zone = ZoneInfo(found.window.zone)
    days = {
        bucket.start.astimezone(zone).date(): counts.runs
        for bucket, counts in zip(found.tiles.buckets, found.tiles.series, strict=True)
    }
    assert len(days) == len(found.tiles.buckets)
    assert {day: runs for day, runs in days.items() if runs} == expected
    for bucket in found.tiles.buckets[1:]:
        assert bucket.start.astimezone(zone).time().isoformat() == "00:00:00"
    assert sum(days.values()) == found.tiles.now.runs == sum(expected.values())
    assert sum(counts.cost for counts in found.tiles.series) == found.tiles.now.cost


def _check_quarters(found: Overview, tenant: Tenant) -> None:
    assert len(found.tiles.buckets) == 24
    for bucket, counts in zip(found.tiles.buckets, found.tiles.series, strict=True):
        assert bucket.end - bucket.start == timedelta(minutes=15)
        assert counts.runs == Run.objects.for_tenants([tenant.pk]).between(bucket.start, bucket.end).count()
    assert sum(counts.runs for counts in found.tiles.series) == found.tiles.now.runs


@pytest.mark.parametrize(("change", "hours"), [(SPRING, 23), (AUTUMN, 25)], ids=["spring", "autumn"])
def test_the_day_on_which_clocks_change_has_its_23_or_25_hours_in_berlin_and_24_in_kathmandu(
    tenant: Tenant, change: datetime, hours: int
) -> None:
    for zone, expected in (("Europe/Berlin", hours), ("Asia/Kathmandu", 24)):
        found = look(tenant, change + timedelta(days=5), range="14d", zone=zone)
        days = {bucket.start.astimezone(ZoneInfo(zone)).date(): bucket for bucket in found.tiles.buckets}
        of_change = days[change.date()]
        assert of_change.end - of_change.start == timedelta(hours=expected)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("folded", [True, False], ids=["folded", "tail"])
def test_the_page_shows_each_viewer_the_halts_of_their_own_days(
    tenant: Tenant, zone: str, folded: bool
) -> None:
    insert_around(tenant, AUTUMN, 300)
    if folded:
        count_all(AUTUMN + timedelta(days=9))
    ends = {"from": "2026-10-18", "to": "2026-10-31"}

    page = page_of(tenant, zone, halts="table", **ends)

    window = parse_window(ends, datetime.now(UTC), zone)
    expected = local_days(tenant, window, "(halt_reason <> '')::int")
    table = page.split("Halts over time, newest first")[1].split("</table>")[0]
    rows = re.findall(
        r'<th class="nowrap" scope="row">(\d+ \w+).*?<td class="num">[^<]*<a[^>]*>([\d,]+)</a></td></tr>',
        table,
    )
    shown = {day: int(runs.replace(",", "")) for day, runs in rows}
    assert {day: runs for day, runs in shown.items() if runs} == {
        f"{day.day} {day:%b}": runs for day, runs in expected.items() if runs
    }


# -- clocks -----------------------------------------------------------------------------------------------


def test_a_guard_a_year_ahead_moves_no_chart_of_today(post: Any, tenant: Tenant) -> None:
    now = datetime.now(UTC)
    post(*(make_run_event(ended_at=now - timedelta(hours=hours)) for hours in (1, 3, 3, 7)))
    before = look(tenant, now, range="24h")
    ahead = now + timedelta(days=365)
    started = make_run_event(ended_at=ahead).started_at
    run_id = uuid7(unix_ms(started), 7)

    post(
        RunStarted(run_id=run_id, job_type="research", started_at=started),
        RunHeartbeat(run_id=run_id, seq=1, at=ahead, pressure={"max_steps": 0.5}),
    )
    post(make_run_event(run_id=run_id, ended_at=ahead))

    for _ in ("in the tail", "folded"):
        after = look(tenant, now, range="24h")
        assert after.tiles.buckets == before.tiles.buckets
        assert after.tiles.series[:-1] == before.tiles.series[:-1]
        assert after.tiles.series[-1].runs == before.tiles.series[-1].runs + 1  # placed at its receipt
        assert after.tiles.now.runs == 5
        later = look(tenant, ahead + timedelta(hours=1), range="24h")
        assert later.tiles.now.runs == 0
        count_all(datetime.now(UTC))
    stored = Run.objects.get(clock_suspect=True)
    assert abs(stored.at - now) < timedelta(minutes=1)
    assert stored.ended_at == ahead.replace(microsecond=ahead.microsecond)
    titles = re.findall(r"<title>(\d+ \w+)", page_of(tenant))
    days = Counter(f"{day.day} {day:%b}" for day in (now, now - timedelta(days=1)))
    assert set(titles) <= set(days)
