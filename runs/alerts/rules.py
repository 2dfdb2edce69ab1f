"""The rules: what each watches, its limits as they are without anybody's doing, and as somebody set them.

A rule that reads counts is judged for each quarter-hour that has closed and is counted, those that were
missed as well and in order; any other for each half minute, or quarter-hour, as things stand. It is over
after some windows in a row in which it found nothing, so that what hovers at a limit makes one incident.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from runs.choices import RuleKind, Severity
from runs.models import Rule

MOMENT = timedelta(seconds=30)  # so that an alert is out within a minute of what it tells of
QUARTER = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A limit that people may set, within [low, high]."""

    name: str
    label: str
    default: float
    low: float
    high: float
    unit: str = ""
    help: str = ""
    said: str = ""
    """The limit in a list of them, around its value: ``{} × the usual``."""

    @property
    def is_whole(self) -> bool:
        return float(self.default).is_integer() and self.unit != "×"

    def say(self, value: float) -> str:
        """Write the limit with its value in words."""
        words = self.said or f"{self.label} {{}} {self.unit}"
        return words.format(written(value)).strip()


def written(value: float) -> str:
    """Write a limit as people read it: ``1.05``, ``1,000,000``."""
    return f"{value:,.10g}"


@dataclass(frozen=True, slots=True)
class Spec:
    """One rule as it comes."""

    kind: RuleKind
    watches: str
    severity: Severity
    parameters: tuple[Parameter, ...] = ()
    per_job: bool = True
    """It may be set for one job type."""
    installation: bool = False
    """It concerns no tenant: operators see and set it."""
    everywhere: bool = False
    """It is judged for the installation and for each tenant."""
    step: timedelta = MOMENT
    """How long a window is."""
    counted: bool = False
    """It reads counts of closed quarter-hours, so it waits for fold and judges what was missed."""
    clear: int = 3
    """Windows in a row without it until it is over."""
    over: str = "back to usual"

    def stands_in(self, tenant_id: int | None) -> bool:
        """Say whether it is set for a tenant, or without one for the installation."""
        return self.everywhere or self.installation == (tenant_id is None)


def _ratio(default: float, help_: str) -> Parameter:
    return Parameter("ratio", "Times the usual", default, 1.05, 100, "×", help_, "{} × the usual")


_SPECS = (
    Spec(
        RuleKind.LOOP_RATE,
        "Tasks that loop, minute by minute, against this hour of the days before.",
        Severity.CRITICAL,
        (
            Parameter(
                "threshold",
                "Evidence that it takes",
                14,
                8,
                40,
                help="12 is sensitive: it alerts sooner, and more often without need.",
                said="evidence {}",
            ),
        ),
    ),
    Spec(
        RuleKind.RELEASE,
        "A release or prompt version that loops more than what ran beside it and before it.",
        Severity.CRITICAL,
    ),
    Spec(
        RuleKind.STEPS,
        "The most steps that 99 of 100 completed tasks took in the last day, against the seven days before.",
        Severity.WARNING,
        (
            _ratio(1.3, "Of the 99th percentile of the days before."),
            Parameter("steps", "And more by at least", 3, 1, 10_000, "steps"),
            Parameter("tasks", "With at least", 300, 300, 1_000_000, "completed tasks in both"),
        ),
        step=QUARTER,
        counted=True,
        clear=4,
    ),
    Spec(
        RuleKind.COST,
        "What a completed task cost in the last six hours, halted and failed runs included, against the "
        "seven days before.",
        Severity.WARNING,
        (
            _ratio(1.5, "Of the cost per completed task of the days before."),
            Parameter("usd", "And at least", 5, 0, 1_000_000, "USD more in all"),
            Parameter("tasks", "With at least", 30, 1, 1_000_000, "completed tasks before"),
        ),
        step=QUARTER,
        counted=True,
        clear=4,
    ),
    Spec(
        RuleKind.FORCED,
        "The share of runs of the last six hours that ended with a forced answer, against the seven days "
        "before.",
        Severity.WARNING,
        (
            _ratio(2.0, "Of the share of the days before."),
            Parameter("points", "And more by at least", 5, 1, 100, "percentage points"),
            Parameter("runs", "With at least", 100, 20, 1_000_000, "runs"),
        ),
        step=QUARTER,
        counted=True,
        clear=4,
    ),
    Spec(
        RuleKind.SOURCE,
        "A domain or tool that stands out in halted runs of several tenants, this one among them.",
        Severity.WARNING,
        (Parameter("lift", "Lift", 3, 1.5, 1_000, "×", "Times as often as in completed runs.", "lift {}"),),
        per_job=False,
        everywhere=True,
        step=QUARTER,
        clear=8,
        over="it no longer stands out",
    ),
    Spec(
        RuleKind.REVIEW_SLA,
        "Checkpoints that nobody has decided in the time that the policy of their job type gives.",
        Severity.CRITICAL,
        (Parameter("checkpoints", "Late ones, at least", 1, 1, 10_000, "checkpoints", said="from {} on"),),
        per_job=False,
        clear=2,
        over="none is late any more",
    ),
    Spec(
        RuleKind.UNCONSUMED,
        "Decisions that no agent has taken up.",
        Severity.WARNING,
        (Parameter("minutes", "After", 10, 1, 10_080, "minutes"),),
        per_job=False,
        clear=2,
        over="all have been taken up, or have expired",
    ),
    Spec(
        RuleKind.PRESSURE,
        "Live runs that have used most of one of their limits.",
        Severity.INFO,
        (
            Parameter("percent", "Near is from", 80, 50, 100, "% of a limit", said="from {} % of a limit on"),
            Parameter("runs", "At least", 3, 1, 100_000, "runs at once"),
        ),
        clear=5,
        over="fewer are near a limit",
    ),
    Spec(
        RuleKind.NEVER_ENDED,
        "Runs that started, fell silent and never said that they ended, in the last day.",
        Severity.WARNING,
        (
            Parameter("minutes", "Silent for", 30, 10, 1_440, "minutes"),
            Parameter("runs", "At least", 5, 1, 100_000, "runs"),
            Parameter("percent", "And at least", 2, 0, 100, "% of the runs of that day"),
        ),
        clear=5,
        over="they ended, or fewer are silent",
    ),
    Spec(
        RuleKind.PRECISION,
        "Stops that reviewers marked as false, of those reviewed in the last 14 days, against the 90 days "
        "before.",
        Severity.WARNING,
        (
            Parameter("percent", "False ones, at least", 20, 1, 100, "%", said="from {} % false on"),
            Parameter("reviews", "With at least", 10, 5, 100_000, "reviewed stops"),
        ),
        per_job=False,
        step=QUARTER,
        clear=4,
        over="fewer stops are marked as false",
    ),
    Spec(
        RuleKind.INGEST_SILENT,
        "No run arrives from a tenant that sends some at this time on other days.",
        Severity.CRITICAL,
        (
            Parameter("minutes", "After", 60, 30, 1_440, "minutes"),
            Parameter("runs", "Where there usually are", 5, 1, 100_000, "runs in that time"),
        ),
        per_job=False,
        clear=1,
        over="runs arrive again",
    ),
    Spec(
        RuleKind.FOLD_LAG,
        "Counting is behind: charts and these rules see only a part of what has arrived.",
        Severity.WARNING,
        (Parameter("seconds", "After", 60, 10, 3_600, "seconds"),),
        per_job=False,
        installation=True,
        over="all that has arrived is counted",
    ),
    Spec(
        RuleKind.OUTBOX_STUCK,
        "Notifications wait that should have been sent.",
        Severity.CRITICAL,
        (Parameter("minutes", "After", 5, 1, 1_440, "minutes"),),
        per_job=False,
        installation=True,
        over="nothing waits any more",
    ),
    Spec(
        RuleKind.DISK,
        "The disk of the database is nearly full.",
        Severity.CRITICAL,
        (Parameter("percent", "Under", 10, 1, 50, "% free"),),
        per_job=False,
        installation=True,
        over="there is room again",
    ),
)
SPECS: Mapping[RuleKind, Spec] = {spec.kind: spec for spec in _SPECS}
"""Every rule, in the order in which pages show them."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a rule stands somewhere: its defaults with what was set there."""

    enabled: bool
    severity: Severity
    values: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.values[name]


@dataclass(frozen=True, slots=True)
class Settings:
    """One rule as it stands in every tenant, read in one query."""

    spec: Spec
    rows: Mapping[tuple[int | None, str], Rule] = field(default_factory=dict)

    @classmethod
    def load(cls, kind: RuleKind) -> Settings:
        rows = {(row.tenant_id, row.job_type): row for row in Rule.objects.filter(rule=kind)}
        return cls(SPECS[kind], rows)

    def of(self, tenant_id: int | None, job_type: str = "") -> Setting:
        """Return what holds: the job type's own row counts whole, then the tenant's, then the defaults."""
        row = self.rows.get((tenant_id, job_type)) or self.rows.get((tenant_id, ""))
        return setting_of(self.spec, row)


def setting_of(spec: Spec, row: Rule | None) -> Setting:
    """Return the defaults with what the row says; what an earlier release kept in it and we lack is left."""
    values = {each.name: each.default for each in spec.parameters}
    if row is None:
        return Setting(True, spec.severity, values)
    kept = {name: float(value) for name, value in row.parameters.items() if name in values}
    return Setting(row.enabled, Severity(row.severity), values | kept)
