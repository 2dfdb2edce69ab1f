"""`manage.py alerts`: what beat does for alert rules, by hand."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from runs.alerts.evaluate import evaluate_rules
from runs.alerts.spikes import judge_minutes


class Command(BaseCommand):
    help = "Judge the alert rules now: open and resolve incidents, and end silences that are over."

    def handle(self, *args: Any, **options: Any) -> None:
        done = evaluate_rules(timezone.now())
        if done is None:
            raise CommandError("Another evaluation is at work.")
        self.stdout.write(
            f"{done.windows} windows judged; incidents: {done.opened} opened, {done.resolved} resolved."
        )
        self.stdout.write(f"{done.settled} silences ended.")
        loops = judge_minutes(timezone.now())
        self.stdout.write(
            f"{loops.minutes} minutes judged for loops; incidents: {loops.opened} opened,"
            f" {loops.resolved} resolved."
        )
        if done.failed:
            raise CommandError(f"Rules that could not be judged: {', '.join(done.failed)}.")
