"""Property tests of the guard: the same examples in every run, however slow the machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("deterministic", derandomize=True, deadline=None)
settings.load_profile("deterministic")
