from __future__ import annotations

import subprocess
import sys

from guardops.guard import owners
from guardops.guard.owners import Owner, is_alive

SLEEPER = "import sys; print('up', flush=True); sys.stdin.read()"


def test_a_holder_lives_until_it_is_closed_or_forgotten() -> None:
    first, second = Owner(), Owner()
    assert is_alive(first.name)
    assert is_alive(f"{first.name}:more")
    first.close()
    assert not is_alive(first.name)
    name = second.name
    assert is_alive(name)
    del second
    assert not is_alive(name)


def test_a_name_of_another_boot_or_of_nobody_is_dead() -> None:
    name = Owner().name
    for dead in (
        name.replace(":", "0:", 1),
        "",
        "a",
        "a:b:c:d",
        f"{owners._boot()}:99999999999999999999:1:x",
    ):
        assert not is_alive(dead), dead


def test_another_process_is_told_by_its_start_and_is_dead_before_anybody_waited_for_it() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdout.readline()
    start = owners._start_of(child.pid)
    name = f"{owners._boot()}:{child.pid}:{start}:x"
    assert is_alive(name)
    assert not is_alive(f"{owners._boot()}:{child.pid}:{int(start) - 1}:x"), "the id of an earlier process"
    child.stdin.close()
    child.stdout.read()  # its end: the process is gone, or a zombie in a moment
    while owners._start_of(child.pid):
        pass
    assert not is_alive(name)
    child.wait()
    child.stdout.close()
    assert not is_alive(name)
