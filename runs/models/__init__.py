from .reviews import StopReview
from .rollup import FoldState, Histogram, IngestSpan, Rollup, SourceDay
from .run import ExternalRun, Run, RunSource, TaskCompletion

__all__ = [
    "ExternalRun",
    "FoldState",
    "Histogram",
    "IngestSpan",
    "Rollup",
    "Run",
    "RunSource",
    "SourceDay",
    "StopReview",
    "TaskCompletion",
]
