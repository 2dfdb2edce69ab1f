from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from html import unescape
from uuid import UUID

import pytest
from django.test import Client

from guardops.tenants.choices import Role
from runs.choices import StopVerdict
from runs.models import Run
from runs.review.stops import review_stop
from tests.factories import make_member
from tests.runs.pages.conftest import Cast
from tests.runs.rows import insert_rows, make_row

URL = "/quality/"
Add = Callable[..., UUID]


@pytest.fixture
def reviewed(cast: Cast, add: Add, now: datetime) -> list[UUID]:
    """Stops of three kinds, two of each reviewed, one falsely stopped."""
    by = make_member(cast.tenant, Role.REVIEWER)
    made = []
    kinds = [
        {"outcome": "halted", "halt_reason": "no_progress", "family": "progress"},
        {"outcome": "halted", "halt_reason": "made_up", "family": "other", "job_type": "coding"},
        {"would_halt": "no_progress"},
    ]
    for kind in kinds:
        runs = [add(eligible=True, tool_calls=7, **kind) for _ in range(3)]
        for run_id, verdict in zip(runs, (StopVerdict.FALSE_STOP, StopVerdict.RIGHT_STOP), strict=False):
            run = Run.objects.get(run_id=run_id)
            reason = run.halt_reason or run.would_halt
            review_stop(run, verdict=verdict, detector=reason, note="", actor=by, now=now, seen=None)
        made += runs
    add(completes=True, eligible=True, outcome="completed")
    return made


def test_every_number_is_as_long_as_its_list(viewer: Client, reviewed: list[UUID]) -> None:
    page = viewer.get(URL).content.decode()
    links = re.findall(r'<a(?: class="n")? href="(/runs/\?[^"]+)">([\d,]+)(?: [^<]*)?</a>', page)
    numbers = {unescape(href): int(number.replace(",", "")) for href, number in links}
    assert len(numbers) > 15
    for href, number in numbers.items():
        assert viewer.get(href).context["listing"].total.number == number, href


def test_figures_and_precision_are_shown(viewer: Client, reviewed: list[UUID]) -> None:
    context = viewer.get(URL).context
    completed, calls, stops = context["figures"]
    assert (completed.part, completed.whole) == (4, 10)
    assert (stops.part, stops.whole) == (3, 6)
    assert (calls.part, calls.whole) == (9 * 7 + 5, 10)
    assert context["found"].falsely_stopped_tasks == 2
    shadow = next(row for row in context["rows"] if row.kind.watched)
    assert (shadow.cell.stops, shadow.cell.verdicts.reviewed, shadow.cell.verdicts.false) == (3, 2, 1)
    both = next(row for row in context["against"] if row.detector == "no_progress")
    assert (both.enforced.stops, both.watched.stops) == (3, 3)


def test_sample_leads_a_reviewer_to_what_is_not_reviewed(
    cast: Cast, client: Client, reviewed: list[UUID]
) -> None:
    client.force_login(make_member(cast.tenant, Role.REVIEWER))
    page = client.get(URL).content.decode()
    assert set(re.findall(r"/runs/([0-9a-f-]{36})/review/", page)) == {str(reviewed[n]) for n in (2, 5, 8)}
    assert "6 of 9 reviewed" in page


def test_viewer_is_offered_no_review(viewer: Client, reviewed: list[UUID]) -> None:
    page = viewer.get(URL).content.decode()
    assert "/review/?" not in re.sub(r'href="/review/[^"]*"', "", page)
    assert "not reviewed" in page


def test_job_type_and_range_narrow_everything(viewer: Client, reviewed: list[UUID]) -> None:
    found = viewer.get(URL, {"job": "coding"}).context["found"]
    assert (len(found.sample), found.stopped, len(found.judged)) == (3, 3, 2)
    long_ago = {"from": "2026-01-01", "to": "2026-01-02"}
    assert "No run ended in this time" in viewer.get(URL, long_ago).content.decode()


def test_members_see_nothing_of_other_tenants(
    cast: Cast, member: Client, now: datetime, reviewed: list[UUID]
) -> None:
    stops = {"outcome": "halted", "halt_reason": "secret_reason"}
    insert_rows([make_row(now - timedelta(minutes=1), tenant_id=cast.foreign.pk, **stops)])
    assert "secret_reason" not in member.get(URL).content.decode()
    assert member.get(URL, {"tenant": "elsewhere"}).status_code == 404


def test_operator_sees_all_tenants_at_once(cast: Cast, client: Client, reviewed: list[UUID]) -> None:
    client.force_login(cast.operator)
    assert len(client.get(URL).context["found"].sample) == 9


def test_before_the_first_run_there_is_a_next_step(viewer: Client) -> None:
    assert "No run has ended yet" in viewer.get(URL).content.decode()


@pytest.mark.parametrize(
    "query", ["range=3y", "from=20000-01-01", "job=%00", f"job={'x' * 200}", "from=2026-02-01&to=2026-01-01"]
)
def test_nonsense_is_told(viewer: Client, query: str) -> None:
    assert viewer.get(f"{URL}?{query}").status_code == 400
