"""`manage.py partitions`: what the hourly task does, by hand."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand
from django.utils import timezone

from runs.partitions import ensure_partitions


class Command(BaseCommand):
    help = "Make the day partitions of the run table that are missing."

    def handle(self, *args: Any, **options: Any) -> None:
        made = ensure_partitions(timezone.now())
        self.stdout.write(f"{len(made)} made: {', '.join(map(str, made))}" if made else "none missing")
