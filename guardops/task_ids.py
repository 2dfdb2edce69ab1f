"""The id under which a task's log lines and audit rows are found: that of the request that asked for it.

It travels in the message's headers. A task of beat's, which nobody's request asked for, goes by its own id.
"""

from __future__ import annotations

from typing import Any

from celery.signals import before_task_publish, task_postrun, task_prerun
from structlog.contextvars import bind_contextvars, get_contextvars, unbind_contextvars

HEADER = "guardops_request_id"
_BOUND = ("request_id", "task")


@before_task_publish.connect  # type: ignore[untyped-decorator]
def _send_along(headers: dict[str, Any] | None = None, **more: Any) -> None:
    if headers is not None and (request_id := get_contextvars().get("request_id")):
        headers.setdefault(HEADER, request_id)


@task_prerun.connect  # type: ignore[untyped-decorator]
def _bind(task_id: str = "", task: Any = None, **more: Any) -> None:
    name = getattr(task.request, HEADER, None) or task_id
    bind_contextvars(request_id=name, task=task.name)


@task_postrun.connect  # type: ignore[untyped-decorator]
def _unbind(**more: Any) -> None:
    unbind_contextvars(*_BOUND)
