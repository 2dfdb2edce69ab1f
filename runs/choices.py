"""Choices of the runs app: the values are the wire's own (`guardops.guard.events`), the labels for people."""

from django.db.models import IntegerChoices, TextChoices


class Outcome(TextChoices):
    COMPLETED = "completed", "Completed"
    COMPLETED_FORCED = "completed_forced", "Forced answer"
    UNRESOLVED = "unresolved", "Unresolved"
    ESCALATED = "escalated", "Escalated"
    HALTED = "halted", "Halted"
    CANCELLED = "cancelled", "Cancelled"
    FAILED = "failed", "Failed"


class Family(TextChoices):
    REPETITION = "repetition", "Repetition"
    CYCLE = "cycle", "Cycle"
    PROGRESS = "progress", "No progress"
    SOURCE = "source", "Source caps"
    BUDGET = "budget", "Budgets"
    ERROR = "error", "Errors"
    CONTROL = "control", "Control"
    OTHER = "other", "Other"


class Grain(IntegerChoices):
    """How long a roll-up's bucket is."""

    QUARTER = 0, "quarter-hour"
    HOUR = 1, "hour"
    DAY = 2, "day"


class Cut(IntegerChoices):
    """By what a roll-up's row is narrowed beside its tenant and its time."""

    ALL = 0, "all runs"
    JOB = 1, "a job type"
    RELEASE = 2, "a release"
    JOB_RELEASE = 3, "a job type and a release"


class StopVerdict(TextChoices):
    """Whether it was right to stop a run."""

    FALSE_STOP = "false_stop", "False stop"
    RIGHT_STOP = "right_stop", "Right stop"
