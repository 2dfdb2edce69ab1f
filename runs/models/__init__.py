from .rollup import FoldState, HaltCount, Histogram, IngestSpan, Rollup, SourceDay
from .run import ExternalRun, Run, RunSource, TaskCompletion

__all__ = [
    "ExternalRun",
    "FoldState",
    "HaltCount",
    "Histogram",
    "IngestSpan",
    "Rollup",
    "Run",
    "RunSource",
    "SourceDay",
    "TaskCompletion",
]
