"""GuardOps itself: does anything arrive, is it counted, is it told, is there room?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from guardops import shown
from runs.alerts.evidence import Evidence, Figure
from runs.alerts.incidents import Finding
from runs.alerts.rules import Setting
from runs.alerts.verdicts import Asked, Subject, Verdict
from runs.choices import Cut, Grain, RuleKind
from runs.notify.outbox import standing
from runs.reports.windows import floor_quarter
from runs.retention.storage import read_disk
from runs.rollup.state import State

_DAY = timedelta(days=1)
_USUAL_DAYS = 7
_ACTIVE_DAYS = 4  # of the six days between today and this weekday a week ago
_DISK_HOLDS = 1.2

# The same time of day in each of the seven days before; a day is 0 where nothing came.
_USUAL = f"""\
SELECT tenant_id, days.back, sum(runs)::bigint
FROM generate_series(1, {_USUAL_DAYS}) AS days(back) CROSS JOIN LATERAL (
    SELECT tenant_id, runs FROM rollup
    WHERE tenant_id <> 0 AND cut = {Cut.ALL.value} AND grain = {Grain.QUARTER.value}
        AND at >= %(start)s - days.back * interval '1 day' AND at < %(end)s - days.back * interval '1 day'
    OFFSET 0
) AS r GROUP BY 1, 2"""
_FIRST = f"""\
SELECT tenant_id, min(at) FROM rollup
WHERE tenant_id = ANY(%s) AND cut = {Cut.ALL.value} AND grain = {Grain.QUARTER.value} GROUP BY 1"""
_HEARD = f"""\
SELECT DISTINCT tenant_id FROM rollup
WHERE tenant_id = ANY(%(tenants)s) AND cut = {Cut.ALL.value} AND grain = {Grain.QUARTER.value}
    AND at >= %(start)s
UNION SELECT tenant_id FROM ingest_span WHERE tenant_id = ANY(%(tenants)s)
UNION SELECT tenant_id FROM live_run WHERE tenant_id = ANY(%(tenants)s) AND last_at >= %(start)s"""


@dataclass(frozen=True, slots=True)
class _Usual:
    """How many runs a tenant sent at this time of day: yesterday first, and since when it sends any."""

    by_day: Sequence[int]
    first: datetime

    def expects(self, runs: float, now: datetime) -> bool:
        """Say whether it usually sends now: this weekday a week ago and most days since, or all it has."""
        known = min(_USUAL_DAYS, (now - self.first) // _DAY)
        active = [number >= runs for number in self.by_day[:known]]
        if known < _USUAL_DAYS:
            return known >= 2 and all(active)
        return active[-1] and sum(active[:-1]) >= _ACTIVE_DAYS


def check_ingest_silent(asked: Asked) -> Verdict | None:
    """Find tenants from which nothing has come for a while that is full of runs on other days.

    None just after GuardOps itself was away.
    """
    settings = asked.settings
    lengths = {settings.of(*key)["minutes"] for key in [(None, ""), *settings.rows]}
    if not asked.watched_for(timedelta(minutes=min(lengths))):
        return None
    findings = [
        finding
        for minutes in sorted(lengths)
        for finding in _silent_tenants(asked, timedelta(minutes=minutes))
    ]
    return Verdict(findings)


def _silent_tenants(asked: Asked, span: timedelta) -> Sequence[Finding]:
    end = floor_quarter(asked.now)
    start = floor_quarter(end - span)
    with connection.cursor() as cursor:
        cursor.execute(_USUAL, {"start": start, "end": end})
        counted: dict[int, list[int]] = {}
        for tenant_id, back, runs in cursor.fetchall():
            counted.setdefault(tenant_id, [0] * _USUAL_DAYS)[back - 1] = runs
        cursor.execute(_FIRST, [list(counted)])
        usual = {tenant: _Usual(counted[tenant], first) for tenant, first in cursor.fetchall()}
        cursor.execute(_HEARD, {"tenants": list(counted), "start": asked.now - span})
        heard = {tenant for (tenant,) in cursor.fetchall()}
    minutes = span / timedelta(minutes=1)
    findings = []
    for tenant_id in sorted(usual.keys() - heard):
        setting = asked.settings.of(tenant_id)
        judged = setting.enabled and setting["minutes"] == minutes and asked.watched_for(span)
        if judged and usual[tenant_id].expects(setting["runs"], asked.now):
            findings.append(_silent_finding(tenant_id, usual[tenant_id], setting, span))
    return findings


def _silent_finding(tenant_id: int, usual: _Usual, setting: Setting, span: timedelta) -> Finding:
    length = shown.duration(span)
    evidence = Evidence(
        figures=[
            Figure("Now", "0 runs", f"in {length}"),
            Figure("Yesterday", f"{usual.by_day[0]:,} runs", "at the same time of day"),
            Figure("A week ago", f"{usual.by_day[-1]:,} runs", "at the same time of day"),
        ],
        facts=[
            "Either no agent runs, or their reports don't get here: look at Guards and at the agents' logs."
        ],
    )
    return Finding(
        tenant_id=tenant_id,
        rule=RuleKind.INGEST_SILENT,
        title=f"No run has arrived for {length}; at this time yesterday there were {usual.by_day[0]:,}.",
        severity=setting.severity,
        evidence=evidence.as_json(),
        query={"list": "guards"},
    )


def check_fold_lag(asked: Asked) -> Verdict | None:
    """Find out whether counting is behind; before it ever began nothing can be said."""
    with connection.cursor() as cursor:
        state = State.read(cursor)
        cursor.execute("SELECT coalesce(sum(runs), 0)::bigint FROM ingest_span")
        (waiting,) = cursor.fetchone()
    setting = asked.settings.of(None)
    if state is None or state.folded_at is None or not setting.enabled:
        return None if setting.enabled else Verdict()
    lag = asked.now - state.folded_at
    if lag < timedelta(seconds=setting["seconds"]):
        return Verdict()
    length = shown.duration(lag)
    evidence = Evidence(
        figures=[Figure("Behind", length), Figure("Not counted", shown.count(waiting), "runs")],
        facts=[
            "Numbers on pages stay right for a while, since they add what is not counted.",
            "The process “fold” is down, or a long transaction in the database holds it back.",
        ],
    )
    title = f"Counting is {length} behind; {shown.count(waiting)} runs are not counted."
    return Verdict([_own(RuleKind.FOLD_LAG, title, setting, evidence, "health")])


def check_outbox(asked: Asked) -> Verdict:
    """Find out whether notifications wait that should have been sent."""
    setting, now = asked.settings.of(None), asked.now
    found = standing(now)
    late = timedelta(minutes=setting["minutes"])
    if not setting.enabled or found.oldest_due is None or now - found.oldest_due < late:
        return Verdict()
    length = shown.duration(now - found.oldest_due)
    evidence = Evidence(
        figures=[
            Figure("Waiting", shown.count(found.waiting), "notifications"),
            Figure("The oldest", length, "after its time"),
            Figure("Given up", shown.count(found.given_up), "in the last day"),
        ],
        facts=[
            "The worker or the broker is down.",
            "What a receiver does not take is tried again, and stands among the deliveries of its channel.",
        ],
    )
    several = f"{shown.count(found.waiting)} notifications wait"
    waiting = "A notification waits" if found.waiting == 1 else several
    title = f"{waiting} to be sent, the oldest for {length}."
    return Verdict([_own(RuleKind.OUTBOX_STUCK, title, setting, evidence, "health")])


def check_disk(asked: Asked) -> Verdict | None:
    """Find out whether the database's disk is nearly full; None where it is another machine's."""
    with connection.cursor() as cursor:
        disk = read_disk(cursor)
    setting = asked.settings.of(None)
    if disk is None or not setting.enabled:
        return None if setting.enabled else Verdict()
    percent = 100 * disk.free / disk.total
    if percent >= setting["percent"]:
        holding = frozenset[Subject]({(None, "")} if percent < setting["percent"] * _DISK_HOLDS else ())
        return Verdict(holding=holding)
    free = f"{disk.free / 1024**3:,.1f} GiB"
    evidence = Evidence(
        figures=[Figure("Free", free, f"of {disk.total / 1024**3:,.0f} GiB ({percent:.1f} %)")],
        facts=["A full disk refuses every run. Runs may be kept for less long, or the disk made larger."],
    )
    title = f"The database's disk has {free} left, {percent:.1f} % of it."
    return Verdict([_own(RuleKind.DISK, title, setting, evidence, "storage")])


def _own(kind: RuleKind, title: str, setting: Setting, evidence: Evidence, page: str) -> Finding:
    return Finding(
        tenant_id=None,
        rule=kind,
        title=title,
        severity=setting.severity,
        evidence=evidence.as_json(),
        query={"list": page},
    )
