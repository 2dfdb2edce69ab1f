"""The folder of shared data beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plugin import SHARED


def shared(relative: str) -> Path:
    """Return the path of a shared file; the test is skipped where there is none."""
    path = SHARED / relative
    if not path.exists():
        pytest.skip(f"needs ../shared/{relative} beside the checkout")
    return path
