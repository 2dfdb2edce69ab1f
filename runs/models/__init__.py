from .alerts import Evaluation, Incident, IncidentStep, Rule, Silence
from .checkpoints import Checkpoint, CheckpointNote, Decision
from .health import Pulse
from .live import LiveRun, RefusedWork
from .minutes import AlertState, LoopClock, LoopMinute
from .notify import Channel, Notification
from .retention import RetentionRun, RunHorizon
from .reviews import StopReview
from .rollup import FoldState, Histogram, IngestSpan, Rollup, SourceDay
from .run import ExternalRun, Run, RunSource, TaskCompletion

__all__ = [
    "AlertState",
    "Channel",
    "Checkpoint",
    "CheckpointNote",
    "Decision",
    "Evaluation",
    "ExternalRun",
    "FoldState",
    "Histogram",
    "Incident",
    "IncidentStep",
    "IngestSpan",
    "LiveRun",
    "LoopClock",
    "LoopMinute",
    "Notification",
    "Pulse",
    "RefusedWork",
    "RetentionRun",
    "Rollup",
    "Rule",
    "Run",
    "RunHorizon",
    "RunSource",
    "Silence",
    "SourceDay",
    "StopReview",
    "TaskCompletion",
]
