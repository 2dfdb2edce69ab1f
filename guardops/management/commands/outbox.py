"""`manage.py outbox`: send what channels are to be told, as beat does every few seconds, by hand."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from runs.notify.outbox import standing, sweep
from runs.notify.relay import relay_due


class Command(BaseCommand):
    help = "Send the notifications that are due, and say how the outbox fares."

    def handle(self, *args: Any, **options: Any) -> None:
        done = relay_due(seconds=60.0)
        self.stdout.write(
            f"{done.sent} messages sent, {done.failed} not taken, {done.dropped} no longer needed."
        )
        swept = sweep(timezone.now())
        if swept:
            self.stdout.write(f"{swept} old ones forgotten.")
        now = standing(timezone.now())
        since = f", the oldest due since {now.oldest_due:%Y-%m-%d %H:%M} UTC" if now.oldest_due else ""
        self.stdout.write(f"{now.waiting} wait{since}; {now.given_up} given up within a day.")
