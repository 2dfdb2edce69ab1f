"""`manage.py policies`: what beat does for policies every few seconds, by hand."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from policies.publish.changes import publish_open_changes
from policies.publish.upkeep import adopt_database, end_what_is_over
from policies.pull.fleet import forget_gone_guards


class Command(BaseCommand):
    help = (
        "Carry edits of organisations on to their tenants, and end policies, blocks and stops that are over."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--restored",
            action="store_true",
            help="the database comes from a backup: guards take its revisions, though theirs are higher",
        )

    def handle(self, *args: Any, restored: bool, **options: Any) -> None:
        now = timezone.now()
        if adopt_database(now, restored=restored) is not None:
            self.stdout.write("A new epoch has begun; every tenant's policies are published anew.")
        self.stdout.write(f"{publish_open_changes(now)} batches of changes published.")
        self.stdout.write(f"{end_what_is_over(now)} policies, blocks and stops ended.")
        self.stdout.write(f"{forget_gone_guards(now)} guards forgotten.")
