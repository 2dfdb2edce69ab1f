from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from guardops.tenants.models import Tenant
from runs.models import LoopClock, LoopMinute
from runs.reports.arrivals import read_arrivals
from runs.reports.outages import read_outages
from runs.reports.panels.releases import ReleaseLine, release_lines
from runs.reports.releases import Estimate, Verdict, read_compared, verdict
from runs.rollup.minutes import minute_of
from tests.factories import make_member, make_tenant
from tests.hostile.payloads import PAYLOADS
from tests.runs.rows import fold, insert_rows, make_row

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = reverse("runs:releases")
DAY = timedelta(days=1)


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant("acme")


def now_() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def runs(
    tenant: Tenant, release: str, at: datetime, count: int, *, looped: int = 0, **columns: Any
) -> list[dict[str, Any]]:
    """Return runs a minute apart from ``at`` on, of which the first ones looped."""
    return [
        make_row(
            at + number * timedelta(minutes=1),
            tenant_id=tenant.pk,
            release=release,
            looped=number < looped,
            **columns,
        )
        for number in range(count)
    ]


def compared(tenant: Tenant, now: datetime) -> list[ReleaseLine]:
    arrivals = read_arrivals([tenant.pk], now - 7 * DAY, now)
    return release_lines(read_compared(arrivals, now), {tenant.pk: tenant})


def test_a_release_that_loops_more_says_so_in_a_sentence(tenant: Tenant) -> None:
    now = now_()
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 400, looped=8))
    insert_rows(runs(tenant, "r2", now - timedelta(hours=4), 200, looped=30))
    fold(now)

    [line] = compared(tenant, now)

    assert (line.release, line.word) == ("r2", "Loops more")
    assert line.said == "loops 2.0\u00a0% → 15.0\u00a0% of 200 runs"
    assert line.measures[0].word == "worse"


def test_a_release_with_few_runs_is_not_judged(tenant: Tenant) -> None:
    now = now_()
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 400))
    insert_rows(runs(tenant, "r2", now - timedelta(hours=4), 20, looped=20))
    fold(now)

    [line] = compared(tenant, now)

    assert line.word == "Too few runs"
    assert "50 of 20 tasks are needed" in line.said


def test_runs_of_one_task_count_as_one_in_the_interval(tenant: Tenant) -> None:
    """Sixty runs of three tasks say as much as three."""
    now = now_()
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 400, looped=8))
    task = {"root_task_id": "one", "eligible": False}
    insert_rows(runs(tenant, "r2", now - timedelta(hours=4), 57, looped=20, **task))
    insert_rows(runs(tenant, "r2", now - timedelta(hours=3), 3))
    fold(now)

    [line] = compared(tenant, now)

    assert line.word == "Too few runs"


def test_the_first_release_of_a_job_type_and_one_that_comes_back_are_no_news(tenant: Tenant) -> None:
    now = now_()
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 10) + runs(tenant, "r0", now - 20 * DAY, 10))
    insert_rows(runs(tenant, "r0", now - timedelta(hours=2), 10))
    insert_rows(runs(tenant, "r9", now - timedelta(hours=2), 10, job_type="other"))
    fold(now)

    assert [line.release for line in compared(tenant, now)] == ["r1"]


def test_halts_that_the_week_before_had_none_of_are_named(tenant: Tenant) -> None:
    now = now_()
    old = {"outcome": "halted", "halt_reason": "step_budget"}
    new = {"outcome": "halted", "halt_reason": "repeated_call"}
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 60) + runs(tenant, "r1", now - 2 * DAY, 3, **old))
    insert_rows(runs(tenant, "r2", now - timedelta(hours=4), 60))
    insert_rows([make_row(now - timedelta(hours=1), tenant_id=tenant.pk, release="r2", **old)])
    insert_rows([make_row(now - timedelta(hours=1), tenant_id=tenant.pk, release="r2", **new)])
    fold(now)

    [line] = compared(tenant, now)

    assert [halt.runs for halt in line.new_halts] == [1]
    assert "reason=repeated_call" in line.new_halts[0].href


def test_cost_and_steps_that_grow_are_told_apart_from_loops(tenant: Tenant) -> None:
    now = now_()
    cheap, dear = {"cost": Decimal("0.010"), "steps": 5}, {"cost": Decimal("0.050"), "steps": 30}
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 600, **cheap))
    insert_rows(runs(tenant, "r2", now - timedelta(hours=10), 590, **dear))
    fold(now)

    [line] = compared(tenant, now)

    assert line.word == "Worse"
    assert [(each.name, each.word) for each in line.measures if each.word == "worse"] == [
        ("p99 steps (tool calls)", "worse"),
        ("Cost per completed task", "worse"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Estimate(0.02, 0.01, 0.03), Estimate(0.09, 0.07, 0.12), Verdict.WORSE),
        (Estimate(0.02, 0.01, 0.03), Estimate(0.04, 0.02, 0.08), Verdict.SAME),
        (Estimate(0.09, 0.07, 0.12), Estimate(0.02, 0.01, 0.03), Verdict.BETTER),
        (Estimate(0.020, 0.019, 0.021), Estimate(0.023, 0.022, 0.024), Verdict.SAME),
        (None, Estimate(0.02, 0.01, 0.03), Verdict.FEW),
    ],
    ids=["worse", "by chance", "better", "too little to matter", "nothing before"],
)
def test_a_measure_moves_where_intervals_do_not_meet_and_it_matters(
    before: Estimate | None, after: Estimate, expected: Verdict
) -> None:
    assert verdict(before, after, least=0.01) == expected


def test_every_figure_leads_to_exactly_its_rows(client: Client, tenant: Tenant) -> None:
    now = now_()
    client.force_login(make_member(tenant))
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 80, looped=3))
    insert_rows(runs(tenant, "r2", now - timedelta(hours=3), 60, looped=9, outcome="completed_forced"))
    insert_rows(runs(tenant, "r2", now - timedelta(hours=3), 4, provider_failure=True, outcome="failed"))
    fold(now)

    [line] = compared(tenant, now)
    loops, _, forced, cost = line.measures
    counted = {
        line.before_href: 80,
        line.after_href: 64,
        loops.before.href: 3,
        loops.after.href: 9,
        forced.after.href: 60,
        cost.before.href: 80,
    }

    for href, expected in counted.items():
        assert client.get(href).context["listing"].total.number == expected, href


def test_a_provider_that_fails_is_named_and_blamed_on_no_release(client: Client, tenant: Tenant) -> None:
    now = now_()
    client.force_login(make_member(tenant))
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 80, looped=2))
    out = {"provider_failure": True, "outcome": "failed"}
    insert_rows(runs(tenant, "r2", now - timedelta(hours=2), 60, **out))
    insert_rows(runs(tenant, "r2", now - timedelta(hours=2), 60, looped=1))
    fold(now)
    LoopClock.objects.create(closed=minute_of(now), mark=0)
    LoopMinute.objects.create(
        tenant_id=tenant.pk, job_type="research", minute=minute_of(now) - 5, runs=40, provider=30, tasks=10
    )

    [line] = compared(tenant, now)
    page = client.get(PAGE).content.decode()

    assert line.word == "No worse"
    assert [(each.failures, each.runs) for each in read_outages([tenant.pk], now)] == [(30, 40)]
    assert "A provider fails" in page
    assert "A provider fails" in client.get(reverse("runs:overview")).content.decode()


def test_releases_of_other_tenants_are_not_shown(client: Client, tenant: Tenant) -> None:
    now, other = now_(), make_tenant("elsewhere")
    client.force_login(make_member(tenant))
    for of in (tenant, other):
        insert_rows(runs(of, "r1", now - 2 * DAY, 10) + runs(of, f"new-of-{of.slug}", now - DAY, 10))
    fold(now)

    page = client.get(PAGE).content.decode()

    assert "new-of-acme" in page
    assert "new-of-elsewhere" not in page
    assert client.get(PAGE, {"tenant": "elsewhere"}).status_code == 400


def test_names_that_attackers_write_are_shown_and_nothing_else(client: Client, tenant: Tenant) -> None:
    now = now_()
    client.force_login(make_member(tenant))
    names = [text for text in PAYLOADS if "\0" not in text and text.isprintable()][:10]
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 10))
    for name in names:
        insert_rows(runs(tenant, name[:200], now - DAY, 2))
    fold(now)

    page = client.get(PAGE).content.decode()

    assert "<script>alert" not in page
    assert "<img src=x" not in page


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("days=nonsense", 400),
        ("page=0", 400),
        ("tenant=elsewhere", 400),
        ("tenant=%00", 400),
        ("q=%ED%A0%80", 200),
        ("q=" + "x" * 999, 400),
        ("job=%00", 400),
    ],
    ids=["days", "page", "tenant", "nul tenant", "surrogate", "long", "nul"],
)
def test_an_address_that_makes_no_sense_is_refused_in_words(
    client: Client, tenant: Tenant, query: str, status: int
) -> None:
    client.force_login(make_member(tenant))

    assert client.get(f"{PAGE}?{query}").status_code == status


def test_the_file_has_a_line_a_release(client: Client, tenant: Tenant) -> None:
    now = now_()
    client.force_login(make_member(tenant))
    insert_rows(runs(tenant, "r1", now - 2 * DAY, 100) + runs(tenant, "=r2", now - DAY, 100, looped=30))
    fold(now)

    text = b"".join(client.get(reverse("runs:releases-export"))).decode("utf-8-sig")

    header, line = text.strip().splitlines()
    assert header.startswith("tenant,job_type,release,first_seen,verdict")
    assert line.startswith("acme,research,'=r2,")
    assert ",worse,worse," in line
