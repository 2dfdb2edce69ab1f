"""The Celery application: it wakes work whose truth is a row in PostgreSQL, so a lost message costs time.

Tasks are made with ``@app.task`` in each app's ``tasks.py``; every periodic one is a management command too.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

from celery import Celery
from celery.exceptions import SecurityWarning
from celery.schedules import crontab
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "guardops.settings")

from django.conf import settings

from guardops import task_ids  # noqa: F401  (listens to what is sent and run)

_VISIBILITY_SECONDS = 300  # after which a killed worker's message is given to another
_TIME_LIMIT_SECONDS = 120  # less than half of it: a task never runs beside its own second delivery

_REDIS_OPTIONS = {
    "visibility_timeout": _VISIBILITY_SECONDS,
    "unacked_restore_throttle": 1,
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
}

# `manage.py up` may run as root, in a container mostly; Celery warns of pickle, which we don't accept.
warnings.filterwarnings("ignore", category=SecurityWarning)

app = Celery("guardops")
app.conf.update(
    broker_url=settings.BROKER_URL,
    broker_connection_retry_on_startup=True,
    broker_transport_options=_REDIS_OPTIONS if settings.BROKER_URL.startswith("redis") else {},
    accept_content=["json"],
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_time_limit=_TIME_LIMIT_SECONDS,
    task_soft_time_limit=_TIME_LIMIT_SECONDS - 20,
    task_publish_retry_policy={"max_retries": 1, "interval_start": 0.2},
    worker_prefetch_multiplier=1,
    worker_redirect_stdouts=False,
    beat_scheduler="guardops.beat:SingleScheduler",
    timezone="UTC",
    beat_schedule={
        "go-on-with-changes": {
            "task": "policies.tasks.go_on_with_changes",
            "schedule": 5.0,
            "options": {"expires": 5},
        },
        "end-expired": {
            "task": "policies.tasks.end_expired",
            "schedule": crontab(),
            "options": {"expires": 60},
        },
        "relay-notifications": {
            "task": "runs.tasks.relay_notifications",
            "schedule": 4.0,
            "options": {"expires": 4},
        },
        "sweep-notifications": {
            "task": "runs.tasks.sweep_notifications",
            "schedule": crontab(minute="27"),
            "options": {"expires": 3600},
        },
        "sweep-checkpoints": {
            "task": "runs.tasks.sweep_checkpoints",
            "schedule": 5.0,
            "options": {"expires": 5},
        },
        "evaluate-rules": {  # each half minute is judged once: asked often, to be soon after an outage
            "task": "runs.tasks.evaluate_rules",
            "schedule": 10.0,
            "options": {"expires": 10},
        },
        "judge-minutes": {  # a minute closes two seconds after its end
            "task": "runs.tasks.judge_minutes",
            "schedule": 10.0,
            "options": {"expires": 10},
        },
        "beat": {"task": "runs.tasks.beat", "schedule": crontab(), "options": {"expires": 60}},
        "ensure-partitions": {
            "task": "runs.tasks.ensure_partitions",
            "schedule": crontab(minute="7"),
            "options": {"expires": 3600},
        },
        "apply-retention": {
            "task": "runs.tasks.apply_retention",
            "schedule": crontab(minute="17"),
            "options": {"expires": 3600},
        },
    },
)
app.autodiscover_tasks(["policies", "runs"])


@setup_logging.connect  # type: ignore[untyped-decorator]
def _keep_our_logging(**kwargs: Any) -> None:
    """Celery sets up no logging of its own once somebody listens here; Django's settings already have."""
