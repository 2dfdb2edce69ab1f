from __future__ import annotations

from typing import Any

from django.db import models


class RunQuerySet(models.QuerySet[Any]):
    pass
