"""/metrics in Prometheus' text format: GuardOps' state from the database, and what this process counts.

Whoever has the token may read it; without one set only this machine may, and in production nobody: there a
proxy on the same machine makes everybody look like a neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from hmac import compare_digest
from ipaddress import ip_address
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from guardops.tenants.cache import ShortCache
from runs.choices import Cut, Grain
from runs.querysets import ALL_TENANTS
from runs.rollup.state import State

from .vitals import Vitals, read_vitals

CONTENT_TYPE = CONTENT_TYPE_LATEST
_AGE = timedelta(seconds=5)
_pages: ShortCache[bytes] = ShortCache(size=1, age=_AGE)

_SUMS = ("runs", "completed", "halted", "forced", "looped", "provider_failures")
# Days that are closed, and the quarter-hours since: counts only grow, as a counter's must.
_ROWS = f"""\
FROM rollup WHERE tenant_id = {ALL_TENANTS} AND cut = {Cut.ALL.value} AND job_type = '' AND release = '' AND (
    grain = {Grain.DAY.value} AND at < %(days_to)s OR grain = {Grain.QUARTER.value} AND at >= %(days_to)s)"""


def may_scrape(authorization: str, peer: str, *, forwarded: bool) -> bool:
    """Say whether a request may read the metrics; ``peer`` is the address that it comes from."""
    if settings.METRICS_TOKEN:
        given = authorization.removeprefix("Bearer ").encode(errors="replace")
        return compare_digest(given, settings.METRICS_TOKEN.encode())
    return not settings.PRODUCTION and not forwarded and _is_loopback(peer)


def _is_loopback(peer: str) -> bool:
    try:
        return ip_address(peer).is_loopback
    except ValueError:
        return False


def render(now: datetime) -> bytes:
    """Return the page. The database's part is at most five seconds old, and left out where that is away."""
    return generate_latest(REGISTRY) + _state(now)


def _state(now: datetime) -> bytes:
    page = _pages.get(b"state", now)
    if page is None:
        try:
            vitals, sums, reasons = read_vitals(now), *_counted()
        except (OperationalError, InterfaceError):
            return _page(
                [GaugeMetricFamily("guardops_database_up", "1 while the database answers.", value=0)]
            )
        page = _page([*_families(vitals), *_counters(sums, reasons)])
        _pages.put(b"state", page, now)
    return page


def _counted() -> tuple[Mapping[str, int], Mapping[str, int]]:
    """Return what fold has counted of all runs since the beginning, and its stopped runs by reason."""
    with connection.cursor() as cursor:
        state = State.read(cursor)
        if state is None:
            return {}, {}
        asked = {"days_to": state.days_to}
        cursor.execute(f"SELECT {', '.join(f'coalesce(sum({name}), 0)' for name in _SUMS)} {_ROWS}", asked)
        sums = dict(zip(_SUMS, cursor.fetchone(), strict=True))
        rows = _ROWS.replace("FROM rollup", "FROM rollup, unnest(reasons, reasons_runs) AS u(reason, number)")
        cursor.execute(f"SELECT reason, sum(number) {rows} GROUP BY 1 ORDER BY 1", asked)
        return sums, dict(cursor.fetchall())


class _Given(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def _page(families: Iterable[Metric]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Given(families))
    return generate_latest(registry)


def _families(vitals: Vitals) -> Iterator[Metric]:
    """Yield the gauges; one without a value is left out, so that no zero is taken for one."""
    values: dict[str, tuple[str, float | None]] = {
        "database_up": ("1 while the database answers.", 1),
        "fold_waiting_runs": ("Runs that are stored and not counted yet.", vitals.counting.waiting),
        "fold_lag_seconds": ("How far counting is behind.", _seconds(vitals.counting.lag)),
        "beat_lock_held": ("1 while a beat holds its lock.", vitals.beat_holds),
        "beat_age_seconds": ("Since a worker last did beat's minute.", _seconds(vitals.beat_age)),
        "queue_tasks": ("Tasks that wait in the broker.", vitals.queue),
        "outbox_waiting": ("Notifications that wait to be sent.", vitals.outbox.waiting),
        "outbox_late_seconds": ("Since the oldest of them was due.", _seconds(vitals.outbox_late)),
        "disk_free_bytes": ("Free on the database's disk.", vitals.disk.free if vitals.disk else None),
        "disk_total_bytes": ("Size of the database's disk.", vitals.disk.total if vitals.disk else None),
        "partition_days_ahead": ("Days to come that have a place for their runs.", vitals.days_ahead),
        "checkpoints_waiting": ("Checkpoints that nobody has decided.", vitals.checkpoints),
    }
    for name, (help_text, value) in values.items():
        if value is not None:
            yield GaugeMetricFamily(f"guardops_{name}", help_text, value=float(value))
    yield _labelled(
        "guards", "Guards by state.", ("state",), {(state,): n for state, n in vitals.guards.items()}
    )
    yield _labelled("incidents", "Incidents that are not over.", ("state", "severity"), vitals.incidents)


def _labelled(
    name: str, help_text: str, labels: tuple[str, ...], values: Mapping[Any, int]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"guardops_{name}", help_text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _counters(sums: Mapping[str, int], reasons: Mapping[str, int]) -> Iterator[Metric]:
    for name, value in sums.items():
        full = "guardops_runs" if name == "runs" else f"guardops_runs_{name}"
        words = "all" if name == "runs" else name.replace("_", " ")
        yield CounterMetricFamily(full, f"Runs that ended and are counted: {words}.", value=float(value))
    family = CounterMetricFamily("guardops_stopped_runs", "Runs that guards stopped.", labels=("reason",))
    for reason, number in reasons.items():
        family.add_metric([reason], float(number))
    yield family


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()
