from django.db import models


class SourceKind(models.TextChoices):
    DOMAIN = "domain", "Domain"
    TOOL = "tool", "Tool"


class BlockAction(models.TextChoices):
    BLOCK = "block", "Block"
    LIMIT = "limit", "Limit"


class Origin(models.TextChoices):
    """What led to a block."""

    MANUAL = "manual", "Entered by hand"
    CHECKPOINT = "checkpoint", "From a checkpoint"
    SOURCE = "source", "From a source's page"
    PROPOSED = "proposed", "Proposed by guards"


class StopScope(models.TextChoices):
    TENANT = "tenant", "The whole tenant"
    JOB_TYPE = "job_type", "A job type"
    TASK = "task", "A task"
    RUN = "run", "A run"


class GuardState(models.TextChoices):
    """How a guard's process stands to its tenant's newest bundle."""

    CURRENT = "current", "Current"
    BEHIND = "behind", "Behind"
    STALE = "stale", "Stale"
    REJECTING = "rejecting", "Rejecting"
    SILENT = "silent", "Silent"
    GONE = "gone", "Gone"


class ChangeKind(models.TextChoices):
    POLICY = "policy", "Policy"
    BLOCKLIST = "blocklist", "Blocklist"
    STOP = "stop", "Stop"
    SIGNING = "signing", "Signing secret"
    UPKEEP = "upkeep", "Expiry and upkeep"
