from .live import LiveRun, RefusedWork
from .retention import RetentionRun, RunHorizon
from .reviews import StopReview
from .rollup import FoldState, Histogram, IngestSpan, Rollup, SourceDay
from .run import ExternalRun, Run, RunSource, TaskCompletion

__all__ = [
    "ExternalRun",
    "FoldState",
    "Histogram",
    "IngestSpan",
    "LiveRun",
    "RefusedWork",
    "RetentionRun",
    "Rollup",
    "Run",
    "RunHorizon",
    "RunSource",
    "SourceDay",
    "StopReview",
    "TaskCompletion",
]
