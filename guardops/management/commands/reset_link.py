"""`manage.py reset_link NAME`: a link that sets a new password, for who has no mail."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from guardops.local import state
from guardops.tenants.models import User
from guardops.tenants.passwords import reset_path


class Command(BaseCommand):
    help = "Print a link that sets a new password: for one hour, once. Pass it on to nobody but its owner."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what the person signs in with")
        parser.add_argument("--url", help="the web door's address, such as https://guardops.example.com")

    def handle(self, *args: Any, name: str, url: str | None, **options: Any) -> None:
        running = state.running()
        base = url or (running.web_url if running else "")
        if not base.startswith(("http://", "https://")):
            raise CommandError("Give the web door's address: --url https://…")
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active person {name}.")
        self.stdout.write(base.rstrip("/") + reset_path(user))
