#!/usr/bin/env python
"""Django's command line for GuardOps; `uv run manage.py up` starts everything on this machine."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "guardops.settings")
    if sys.argv[1:2] in (["web"], ["gate"], ["fold"]):  # settings differ: pools, time limits
        os.environ.setdefault("GUARDOPS_PROCESS", sys.argv[1])
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
