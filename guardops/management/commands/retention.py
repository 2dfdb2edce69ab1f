"""`manage.py retention`: what the hourly task does, by hand and to its end."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.template.defaultfilters import filesizeformat
from django.utils import timezone

from guardops.tenants.errors import GuardOpsError
from runs.retention.apply import apply_retention


class Command(BaseCommand):
    help = "Delete the runs that are older than they are kept; their counts stay."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            record = apply_retention(timezone.now())
        except (DatabaseError, GuardOpsError) as error:
            raise CommandError(str(error).strip()) from None
        if record is None:
            raise CommandError("Another retention is at work.")
        self.stdout.write(
            f"{len(record.days)} days dropped ({filesizeformat(record.bytes_freed)} freed), "
            f"{record.runs:,} single runs and {record.beside:,} rows beside runs deleted."
        )
        if record.postponed:
            days = ", ".join(map(str, record.postponed))
            self.stdout.write(f"Left for the next time, because they are in use or not yet counted: {days}.")
