"""What an incident shows of why it opened: figures and a chart, kept as plain JSON from when it fired.

The chart's columns follow each other without gaps from ``start`` on, ``step_s`` seconds each. What is read
back is what we wrote ourselves, maybe in an earlier release: what is missing is left out of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

Unit = Literal["count", "percent", "usd", "steps", "seconds"]
MAX_COLUMNS = 200
UNITS: tuple[Unit, ...] = ("count", "percent", "usd", "steps", "seconds")


@dataclass(frozen=True, slots=True)
class Figure:
    """A number in words: ``Now``, ``8.3 %``, ``37 of 446 tasks``."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A line: a value for each column, None where there is nothing to say. ``usual`` is drawn behind."""

    name: str
    values: Sequence[float | None]
    usual: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """``unit`` is what the series' values are in; percentages are written 8.3, not 0.083."""

    figures: Sequence[Figure] = ()
    title: str = ""
    unit: Unit = "count"
    start: datetime | None = None
    step_s: int = 0
    series: Sequence[Series] = ()
    threshold: float | None = None
    fired_at: datetime | None = None
    facts: Sequence[str] = field(default_factory=tuple)
    """Sentences that belong to it: "Provider failures are left out: 12 of 458 tasks"."""

    @property
    def moments(self) -> list[datetime]:
        """When each column begins; none without a chart."""
        if self.start is None or self.step_s <= 0 or not self.series:
            return []
        columns = min(len(self.series[0].values), MAX_COLUMNS)
        return [self.start + timedelta(seconds=self.step_s * number) for number in range(columns)]

    def as_json(self) -> dict[str, Any]:
        """Return it as it is kept."""
        return {
            "figures": [[each.label, each.value, each.note] for each in self.figures],
            "title": self.title,
            "unit": self.unit,
            "start": _written(self.start),
            "step_s": self.step_s,
            "series": [
                {"name": each.name, "values": [_rounded(value) for value in each.values], "usual": each.usual}
                for each in self.series
            ],
            "threshold": _rounded(self.threshold),
            "fired_at": _written(self.fired_at),
            "facts": list(self.facts),
        }

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Evidence:
        """Read what ``as_json`` wrote."""
        unit = kept.get("unit")
        return cls(
            figures=[Figure(*(str(part) for part in each)) for each in kept.get("figures", ())],
            title=str(kept.get("title", "")),
            unit=unit if unit in UNITS else "count",
            start=_read(kept.get("start")),
            step_s=int(kept.get("step_s", 0)),
            series=[
                Series(str(each["name"]), list(each["values"])[:MAX_COLUMNS], bool(each["usual"]))
                for each in kept.get("series", ())
            ],
            threshold=kept.get("threshold"),
            fired_at=_read(kept.get("fired_at")),
            facts=[str(fact) for fact in kept.get("facts", ())],
        )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 4)


def _written(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment else None


def _read(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
