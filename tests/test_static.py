"""What a browser has to load."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import django_htmx
from django.conf import settings

OWN = Path(settings.BASE_DIR, "static")


def test_scripts_and_styles_stay_under_sixty_kilobytes_gzipped() -> None:
    htmx = Path(django_htmx.__file__).parent / "static" / "django_htmx" / "htmx-2.min.js"
    loaded = [htmx, *OWN.glob("*.js"), *OWN.glob("*.css")]

    assert len(loaded) >= 3
    assert sum(len(gzip.compress(path.read_bytes())) for path in loaded) < 60 * 1024


def test_every_colour_is_a_token() -> None:
    sheet = (OWN / "guardops.css").read_text()
    tokens, rules = sheet.split("/* ground */")

    assert "light-dark(" in tokens
    assert re.findall(r"#[0-9a-f]{3,8}\b", rules, re.IGNORECASE) == []
