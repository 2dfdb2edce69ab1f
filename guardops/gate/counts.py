"""What this gate has done since it started, for /metrics: each process counts for itself."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series a counter that nobody asks for

EVENTS = Counter("guardops_ingest_events", "Events that were answered, by what became of them.", ["result"])
DRAINING = Gauge("guardops_gate_draining", "1 while this gate goes down.")
WAITS = Gauge("guardops_gate_waits", "Guards that wait at this gate for policies.")

_ACCEPTED, _DUPLICATE, _REFUSED = (EVENTS.labels(name) for name in ("accepted", "duplicate", "refused"))


def count_events(accepted: int, duplicates: int, refused: int) -> None:
    """Count a request's events; refused ones are those that were rejected or contradict what is stored."""
    _ACCEPTED.inc(accepted)
    _DUPLICATE.inc(duplicates)
    _REFUSED.inc(refused)
