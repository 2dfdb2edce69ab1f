"""`manage.py checkpoints`: what beat does for checkpoints every few seconds, by hand."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from runs.checkpoints.timeouts import sweep_checkpoints


class Command(BaseCommand):
    help = "Expire checkpoints that nobody decided in time, end claims that ran out, and mark what is late."

    def handle(self, *args: Any, **options: Any) -> None:
        swept = sweep_checkpoints(timezone.now())
        self.stdout.write(f"{swept.expired} checkpoints expired, {swept.leases} claims ended.")
        self.stdout.write(f"{swept.escalated} are over their time for review.")
        self.stdout.write(
            f"{swept.unconsumed} decisions not taken up, {swept.undeliverable} given up as undeliverable."
        )
