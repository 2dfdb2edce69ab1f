"""The files of a spool: how records stand in a segment, and how a process shows that its segments are its.

A record is one line: eight hex digits of CRC-32, a space, the JSON. A last line that a crash has torn is
skipped; a line that is damaged elsewhere makes the segment a corrupt one, whose other records still count.
A process holds a lock (``flock``) on a file of its own for as long as it lives. The kernel lets go of it
however the process ends, so a reused pid deceives nobody.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

SUFFIX = ".events"
LOCK_SUFFIX = ".lock"
CORRUPT_SUFFIX = ".corrupt"
_CRC_DIGITS = 8


class Name(NamedTuple):
    """A segment's file name: whose it is, which rank its records have, and its place in their order."""

    owner: str
    rank: int
    number: int

    def __str__(self) -> str:
        return f"{self.owner}-{self.rank}-{self.number:010d}{SUFFIX}"


class Content(NamedTuple):
    """The records of a segment, and whether one in its midst was damaged."""

    records: list[bytes]
    corrupt: bool


def parse_name(text: str) -> Name | None:
    """Return the parts of a segment's name, None for any other file."""
    owner, _, rest = text.removesuffix(SUFFIX).partition("-")
    rank, _, number = rest.partition("-")
    if text.endswith(SUFFIX) and owner and rank.isdecimal() and number.isdecimal():
        return Name(owner, int(rank), int(number))
    return None


def framed(record: bytes) -> bytes:
    """Return the line of a record, which holds no line break."""
    return b"%08x %b\n" % (zlib.crc32(record), record)


def read(path: Path, longest: int) -> Content:
    """Read a segment of at most ``longest`` bytes; raises OSError where that can't be done."""
    with path.open("rb") as file:
        raw = file.read(longest + 1)
    if len(raw) > longest:
        return Content([], corrupt=True)
    lines = raw.split(b"\n")
    records = [record for line in lines if (record := _unframed(line)) is not None]
    damaged = [number for number, line in enumerate(lines) if line and _unframed(line) is None]
    last = len(lines) - 1 if lines[-1] else len(lines) - 2
    return Content(records, corrupt=any(number != last for number in damaged))


def _unframed(line: bytes) -> bytes | None:
    record = line[_CRC_DIGITS + 1 :]
    try:
        intact = int(line[:_CRC_DIGITS], 16) == zlib.crc32(record)
    except ValueError:
        return None
    return record if intact and record else None


class Claim:
    """A process's claim on its segments in a folder: a lock file that it holds until it ends."""

    def __init__(self, folder: Path) -> None:
        """Make and lock the file; raises OSError where that can't be done."""
        self.owner = secrets.token_hex(8)
        self._path = folder / f"{self.owner}{LOCK_SUFFIX}"
        # Under another name until it is locked, so that nobody takes it for a dead process's.
        unlocked = folder / f"{self.owner}.new"
        self._fd = os.open(unlocked, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unlocked.rename(self._path)
        except OSError:
            self.forget()
            unlocked.unlink(missing_ok=True)
            raise

    def forget(self) -> None:
        """Close the file. In a forked child this leaves the parent's lock as it is."""
        os.close(self._fd)

    def release(self) -> None:
        """Give the claim up: what is left is anybody's."""
        self._path.unlink(missing_ok=True)
        self.forget()


@contextmanager
def estate(folder: Path, owner: str) -> Iterator[list[Name]]:
    """Give the segments of a dead process, none where it lives, to nobody else at the same time.

    The claim is gone afterwards. Where there is none its owner is dead: a claim is made before the first
    segment, and given up after the last.
    """
    path = folder / f"{owner}{LOCK_SUFFIX}"
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        yield _segments_of(folder, owner)
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield []
            return
        yield _segments_of(folder, owner)
        path.unlink(missing_ok=True)
    finally:
        os.close(fd)


def owners(folder: Path) -> set[str]:
    """Return every process, living or dead, that has a claim or segments in a folder."""
    entries = os.listdir(folder)
    claims = {entry.removesuffix(LOCK_SUFFIX) for entry in entries if entry.endswith(LOCK_SUFFIX)}
    return claims | {name.owner for entry in entries if (name := parse_name(entry)) is not None}


def _segments_of(folder: Path, owner: str) -> list[Name]:
    found = (parse_name(entry) for entry in os.listdir(folder))
    return sorted(name for name in found if name is not None and name.owner == owner)
