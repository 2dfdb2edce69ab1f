"""Logging: one line an event, whatever is in it, so that no text can forge a second one.

JSON for machines; for a person at a terminal a short line whose control characters are escaped all the same.
"""

from __future__ import annotations

from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger


def _without_colours(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    event.pop("color_message", None)  # uvicorn says everything twice
    return event


_SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.ExtraAdder(),
    _without_colours,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]
_NOISY = {"httpx": "WARNING", "httpcore": "WARNING", "kombu": "WARNING", "waitress.queue": "ERROR"}


def configuration(form: str, level: str) -> dict[str, Any]:
    """Return Django's LOGGING for ``form`` json or text, and lead structlog's own loggers the same way."""
    structlog.configure(
        processors=[
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    rendering: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if form == "json":
        # Without the frames' variables: they hold keys, passwords and what agents sent.
        frames = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        rendering += [
            structlog.processors.ExceptionRenderer(frames),
            structlog.processors.JSONRenderer(default=str),
        ]
    else:
        rendering += [structlog.processors.format_exc_info, _as_text]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "processors": rendering,
                "foreign_pre_chain": _SHARED,
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": [], "level": level, "propagate": True},
            **{name: {"level": quieter} for name, quieter in _NOISY.items()},
        },
    }


def _as_text(logger: WrappedLogger, method: str, event: EventDict) -> str:
    level, text = event.pop("level", ""), event.pop("event", "")
    event.pop("timestamp", None)
    trace = event.pop("exception", "")
    fields = " ".join(f"{name}={value!r}" for name, value in event.items())
    head = f"{level:<8}{_escaped(str(text))} {_escaped(fields)}".rstrip()
    # A traceback keeps its lines, indented: they can't be taken for an event.
    return "\n".join([head, *(f"    {_escaped(line)}" for line in str(trace).splitlines())])


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
