from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from guardops.local.errors import LocalError
from guardops.local.lock import only_one


def test_a_second_holder_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(LocalError, match=f"process {os.getpid()}"), only_one(tmp_path):
        pass


def test_the_lock_is_free_after_its_holder_was_killed(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys; from guardops.local.lock import only_one\n"
        "with only_one(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LocalError), only_one(tmp_path):
            pass
        holder.kill()
        holder.wait()
    with only_one(tmp_path):
        pass
