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


class CheckpointState(TextChoices):
    """Where a checkpoint stands."""

    OPEN = "open", "Open"
    CLAIMED = "claimed", "Claimed"
    DECIDED = "decided", "Decided"
    DELIVERED = "delivered", "Delivered"
    CONSUMED = "consumed", "Carried out"
    EXPIRED = "expired", "Expired"
    UNDELIVERABLE = "undeliverable", "Undeliverable"


class DecisionAction(TextChoices):
    """What was decided on a checkpoint."""

    RESUME = "resume", "Resume"
    ANSWER = "answer", "Answer"
    FORCE_ANSWER = "force_answer", "Force an answer"
    STOP = "stop", "Stop"
    APPROVE = "approve", "Approve the call"


class OnTimeout(TextChoices):
    """What becomes of a checkpoint that nobody decided in time."""

    STOP = "stop", "Stop"
    FORCE_ANSWER = "force_answer", "Force an answer"


class LastStep(TextChoices):
    """The last thing that happened to a checkpoint; the labels go on after a name."""

    OPENED = "opened", "opened it"
    CLAIMED = "claimed", "claimed it"
    RELEASED = "released", "released it"
    LEASE_ENDED = "lease_ended", "held it until the claim ran out"
    HANDED_OVER = "handed_over", "handed it over"
    DECIDED = "decided", "decided it"
    UNDONE = "undone", "took the decision back"
    DELIVERED = "delivered", "got the decision"
    CONSUMED = "consumed", "carried the decision out"
    EXPIRED = "expired", "let it expire"
    UNDELIVERABLE = "undeliverable", "gave the decision up"


class RuleKind(TextChoices):
    """What is watched for; `runs.alerts.rules` says how, and from when on it is an incident."""

    LOOP_RATE = "loop_rate", "Loop rate spike"
    RELEASE = "release", "Release that loops more"
    STEPS = "steps", "Steps creeping up"
    COST = "cost", "Cost per completed task"
    FORCED = "forced", "Forced answers"
    SOURCE = "source", "Source in halted runs of several tenants"
    REVIEW_SLA = "review_sla", "Review late"
    UNCONSUMED = "unconsumed", "Decision not taken up"
    PRESSURE = "pressure", "Live runs near a limit"
    NEVER_ENDED = "never_ended", "Runs that never ended"
    PRECISION = "precision", "Guard precision falling"
    INGEST_SILENT = "ingest_silent", "Nothing arrives"
    FOLD_LAG = "fold_lag", "Counting is behind"
    OUTBOX_STUCK = "outbox_stuck", "Notifications stuck"
    DISK = "disk", "Disk filling up"


class Severity(TextChoices):
    """How soon somebody has to look, the least first."""

    INFO = "info", "Info"
    WARNING = "warning", "Warning"
    CRITICAL = "critical", "Critical"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class IncidentState(TextChoices):
    """Where an incident stands."""

    OPEN = "open", "Open"
    ACKNOWLEDGED = "acknowledged", "Acknowledged"
    RESOLVED = "resolved", "Resolved"


class Transition(TextChoices):
    """What happened to an incident; each step of its log is one, and notifications tell of some."""

    OPENED = "opened", "opened"
    REOPENED = "reopened", "reopened"
    UNSILENCED = "unsilenced", "still there as its silence ended"
    WORSE = "worse", "became more severe"
    ACKNOWLEDGED = "acknowledged", "acknowledged"
    ASSIGNED = "assigned", "assigned"
    NOTED = "noted", "noted"
    RESOLVED = "resolved", "resolved"


class ChannelKind(TextChoices):
    """How a channel is told things."""

    MAIL = "mail", "E-mail"
    WEBHOOK = "webhook", "Signed webhook"
    PAGERDUTY = "pagerduty", "PagerDuty"
    ALERTMANAGER = "alertmanager", "Alertmanager webhook"
    APPRISE = "apprise", "Chat or push service"


class SubjectKind(TextChoices):
    """What a notification tells of."""

    INCIDENT = "incident", "Incident"
    DECISION = "decision", "Decision"
    TEST = "test", "Test"


class NotificationState(TextChoices):
    """Where a notification stands."""

    WAITING = "waiting", "Waiting"
    SENT = "sent", "Sent"
    DROPPED = "dropped", "No longer needed"
    GIVEN_UP = "given_up", "Given up"
