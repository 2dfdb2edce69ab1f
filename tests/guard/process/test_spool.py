from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from guardops.guard.segments import read
from guardops.guard.spool import Spool

CHECKOUT = Path(__file__).resolve().parents[3]
STARTED, ENDED = 0, 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def spool(folder: Path) -> Iterator[Spool]:
    spool = Spool(folder)
    yield spool
    spool.close()


def taken(spool: Spool) -> list[bytes]:
    """Take and settle everything that waits."""
    found = []
    while batch := spool.take():
        found += batch.records
        spool.settle(batch)
    return found


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.events"))


@contextmanager
def another_process(folder: Path, script: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a script that has a spool and writes a byte when it is where it should be."""
    begin = "import os, sys; from pathlib import Path; from guardops.guard.spool import Spool\n"
    begin += f"spool = Spool(Path({str(folder)!r}))\n"
    process = subprocess.Popen(
        [sys.executable, "-c", begin + textwrap.dedent(script)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
    )
    try:
        assert process.stdout
        assert process.stdout.read(1) == b"!"
        yield process
    finally:
        process.kill()
        process.communicate()


WRITES_AND_WAITS = """
spool.append(1, b'{"n":1}')
os.write(1, b"!")
sys.stdin.read()
"""


def test_what_is_appended_is_taken_in_order_and_gone_when_settled(spool: Spool, folder: Path) -> None:
    for number in range(3):
        spool.append(ENDED, b"%d" % number)
    assert spool.waiting
    assert taken(spool) == [b"0", b"1", b"2"]
    assert not spool.waiting
    assert segments(folder) == []


def test_what_is_not_settled_is_given_again(spool: Spool) -> None:
    spool.append(ENDED, b"1")
    first = spool.take()
    spool.append(ENDED, b"2")
    second = spool.take()
    assert first is not None
    assert second is not None
    assert (first.records, second.records) == ([b"1"], [b"1"])
    assert taken(spool) == [b"1", b"2"]


def test_lower_ranks_are_taken_first(spool: Spool) -> None:
    spool.append(ENDED, b"end")
    spool.append(STARTED, b"start")
    assert taken(spool) == [b"start", b"end"]


def test_a_batch_holds_no_more_than_is_asked_for(spool: Spool) -> None:
    for _ in range(3):
        for number in range(4):
            spool.append(ENDED, b"%d" % number)
        assert spool.take() is not None  # what is open is closed only where nothing else waits
    batch = spool.take(most_records=5)
    assert batch is not None
    assert len(batch.records) == 4
    assert len(taken(spool)) == 12


def test_only_its_user_may_look_into_it(spool: Spool, folder: Path) -> None:
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    spool.append(ENDED, b"1")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_what_a_killed_process_wrote_is_taken_over(spool: Spool, folder: Path) -> None:
    with another_process(folder, WRITES_AND_WAITS) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert spool.adopt() == 1
        assert taken(spool) == [b'{"n":1}']
        spool.close()
        assert list(folder.iterdir()) == []


def test_what_a_living_process_wrote_is_its_own(spool: Spool, folder: Path) -> None:
    with another_process(folder, WRITES_AND_WAITS):
        assert spool.adopt() == 0
        assert taken(spool) == []


def test_what_a_closed_spool_left_is_taken_over(spool: Spool, folder: Path) -> None:
    before = Spool(folder)
    before.append(ENDED, b"1")
    before.close()
    assert spool.adopt() == 1
    assert taken(spool) == [b"1"]


def test_two_heirs_take_each_segment_once(folder: Path) -> None:
    for number in range(10):
        before = Spool(folder)
        before.append(ENDED, b"%d" % number)
        before.close()
    one, other = Spool(folder), Spool(folder)
    assert one.adopt() + other.adopt() == 10
    assert sorted(taken(one) + taken(other)) == [b"%d" % number for number in range(10)]
    one.close()
    other.close()


def test_a_forked_child_begins_anew_and_leaves_the_parents_records_alone(spool: Spool, folder: Path) -> None:
    script = """
    spool.append(1, b"parent")
    child = os.fork()
    if not child:
        spool.after_fork()
        spool.append(1, b"child")
        os._exit(0)
    os.waitpid(child, 0)
    spool.append(1, b"parent again")
    os.write(1, b"!")
    sys.stdin.read()
    """
    with another_process(folder, script):
        assert spool.adopt() == 1
        assert taken(spool) == [b"child"]
    assert spool.adopt() == 1
    assert taken(spool) == [b"parent", b"parent again"]


def test_a_line_torn_by_a_crash_is_skipped(spool: Spool, folder: Path) -> None:
    before = Spool(folder)
    before.append(ENDED, b"whole")
    before.append(ENDED, b"torn by the crash")
    before.close()
    [path] = segments(folder)
    path.write_bytes(path.read_bytes()[:-9])
    spool.adopt()
    assert taken(spool) == [b"whole"]
    assert list(folder.glob("*.corrupt")) == []


def test_a_damaged_segment_is_set_aside_and_its_other_records_are_sent(spool: Spool, folder: Path) -> None:
    before = Spool(folder)
    for record in (b"first", b"second", b"third"):
        before.append(ENDED, record)
    before.close()
    [path] = segments(folder)
    path.write_bytes(path.read_bytes().replace(b"second", b"secOnd"))
    spool.adopt()
    assert taken(spool) == [b"first", b"third"]
    assert len(list(folder.glob("*.corrupt"))) == 1


@pytest.mark.parametrize("rubbish", [b"", b"\n\n", b"\0" * 5_000, b"no records\nat all\n", os.urandom(3_000)])
def test_rubbish_stops_nothing(spool: Spool, folder: Path, rubbish: bytes) -> None:
    spool.append(ENDED, b"mine")
    (folder / "dead-1-0000000001.events").write_bytes(rubbish)
    (folder / "dead-1-0000000002.events").mkdir()
    spool.adopt()
    assert b"mine" in taken(spool)
    assert taken(spool) == []


def test_a_full_spool_drops_beginnings_then_the_oldest_ends_and_counts_them(folder: Path) -> None:
    spool = Spool(folder, max_bytes=16_000)
    for number in range(20):
        spool.append(STARTED, b"s%03d" % number + b"." * 200)
    for number in range(60):
        spool.append(ENDED, b"e%03d" % number + b"." * 200)
    dropped = dict(spool.dropped)
    spool.dropped.clear()
    left = [record[:4] for record in taken(spool)]
    assert dropped[STARTED] == 20 - sum(record.startswith(b"s") for record in left)
    assert dropped[STARTED] > 0
    assert ENDED not in dropped
    for number in range(100):
        spool.append(ENDED, b"f%03d" % number + b"." * 200)
    assert sum(path.stat().st_size for path in segments(folder)) <= 16_000
    kept = [record[:4] for record in taken(spool)]
    assert kept == [b"f%03d" % number for number in range(100 - len(kept), 100)]
    assert spool.dropped == {ENDED: 100 - len(kept)}
    spool.close()


def test_what_is_being_sent_is_not_dropped(folder: Path) -> None:
    spool = Spool(folder, max_bytes=4_000)
    spool.append(ENDED, b"first" + b"." * 200)
    batch = spool.take()
    assert batch is not None
    for number in range(60):
        spool.append(ENDED, b"%d" % number + b"." * 200)
    assert batch.segments[0].path.exists()
    spool.close()


def test_a_folder_that_cannot_be_had_leaves_records_in_memory_until_it_can(
    spool: Spool, folder: Path
) -> None:
    folder.write_text("in the way")
    spool.append(ENDED, b"1")
    spool.append(ENDED, b"2")
    batch = spool.take()
    assert batch is not None
    assert batch.records == [b"1", b"2"]
    folder.unlink()
    spool.append(ENDED, b"3")
    assert sorted(record for path in segments(folder) for record in read(path, 10_000).records) == [
        b"1",
        b"2",
        b"3",
    ]
    spool.settle(batch)
    assert sorted(taken(spool)) == [b"1", b"2", b"3"]  # at least once


def test_what_was_sent_from_memory_is_gone(spool: Spool, folder: Path) -> None:
    folder.write_text("in the way")
    spool.append(ENDED, b"1")
    assert taken(spool) == [b"1"]
    assert not spool.waiting


def test_memory_is_bounded_as_well(folder: Path) -> None:
    folder.write_text("in the way")
    spool = Spool(folder, max_memory_bytes=100)
    for number in range(20):
        spool.append(number % 2, b"%010d" % number)
    assert spool.dropped == {STARTED: 10}
    assert taken(spool) == [b"%010d" % number for number in range(1, 20, 2)]
    assert not spool.waiting


def test_a_full_disk_leaves_records_in_memory_and_no_half_of_one_on_it(folder: Path) -> None:
    script = """
    import resource
    spool.append(1, b"a" * 100)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, resource.RLIM_INFINITY))
    spool.append(1, b"b" * 100)  # half of it fits
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    spool.append(1, b"c" * 100)
    batch = spool.take()
    assert [record[:1] for record in batch.records] == [b"a", b"c", b"b"], batch.records
    spool.settle(batch)
    assert not batch.segments[0].corrupt
    os.write(1, b"!")
    """
    with another_process(folder, script) as process:
        assert process.wait() == 0


def test_sync_puts_on_the_disk_what_was_appended_since(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    spool.sync()
    spool.append(ENDED, b"1")
    spool.sync()
    spool.sync()
    assert len(synced) == 1
