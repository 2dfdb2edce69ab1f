"""`manage.py setup`: bring a database up to date and, where it is empty, make the first admin."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.utils import timezone

from guardops.tenants.setup import first_start
from policies.publish.upkeep import adopt_database
from runs.partitions import ensure_partitions


class Command(BaseCommand):
    help = "Migrate, make partitions and, in an empty database, the first admin (printed once)."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, verbosity=options["verbosity"])
        ensure_partitions(timezone.now())
        adopt_database(timezone.now())
        if login := first_start():
            self.stdout.write("")
            self.stdout.write("  Sign in with these; the password is not shown again:")
            self.stdout.write(f"    name      {login.username}")
            self.stdout.write(f"    password  {login.password}")
            self.stdout.write("")
