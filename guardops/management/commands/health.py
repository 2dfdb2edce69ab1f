"""`manage.py health`: how GuardOps is, in a terminal; with ``--beat`` it does beat's minute by hand."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from runs.health.pulse import beat
from runs.health.signs import signs_of
from runs.health.vitals import read_vitals


class Command(BaseCommand):
    help = "Say how each part of GuardOps is; exit code 1 where one does not work."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--beat", action="store_true", help="give a sign of life and call the watchdog")

    def handle(self, *args: Any, **options: Any) -> None:
        now = timezone.now()
        if options["beat"]:
            if error := beat(now):
                raise CommandError(error)
            return
        signs = signs_of(read_vitals(now))
        for sign in signs:
            self.stdout.write(f"{sign.state:<7}{sign.name}: {sign.said}. {sign.advice}".rstrip())
        if any(sign.state == "danger" for sign in signs):
            raise CommandError("Some parts don't work.")
