from __future__ import annotations

from tests.local.conftest import home, outsider

__all__ = ["home", "outsider"]
