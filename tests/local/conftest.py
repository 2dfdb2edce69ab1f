from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.local.outsider import Outsider


@pytest.fixture
def home() -> Iterator[Path]:
    """A state folder with a short path."""
    path = Path(tempfile.mkdtemp(prefix="go-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def outsider() -> Iterator[Callable[[int], Outsider]]:
    """Make an ordinary user of a number; needs root."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    world = Path(tempfile.mkdtemp(prefix="go-world-"))
    Outsider.make_world(world)
    yield lambda uid: Outsider(world, uid)
    shutil.rmtree(world)
