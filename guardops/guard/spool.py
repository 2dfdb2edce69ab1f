"""Events that wait to be sent, on disk: they outlive a kill, a restart and an outage of any length.

A record is with the kernel when :meth:`Spool.append` returns, so it outlives the process however that ends.
:meth:`Spool.sync`, which the reporter calls before every request and every second between them, puts it on
the disk itself: a machine that loses power may lose its last seconds. Segments of processes that have died
are taken over by one that lives.

The spool is bounded. Where it is full the records of the lowest rank go first, the oldest of them first; what
went is counted. Where the disk is full or the folder can't be written, records stay in memory, within a bound
of their own, until the disk takes them. Nothing here raises into the agent's loop.
"""

from __future__ import annotations

import logging
import os
import stat
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Lock

from guardops.guard.segments import (
    CORRUPT_SUFFIX,
    Claim,
    Content,
    Name,
    estate,
    framed,
    owners,
    parse_name,
    read,
)

MAX_BYTES = 64 * 1024 * 1024
MAX_MEMORY_BYTES = 8 * 1024 * 1024
MAX_SEGMENT_BYTES = 1024 * 1024
MAX_RECORDS = 1_000
_MAX_RECORD_BYTES = 512 * 1024
_LEAST_SEGMENTS = 16
"""The bound is at least this many segments, so that what a full spool drops is a small part of it."""
_MAX_CORRUPT = 4
_MAX_UNSYNCED = 8

_log = logging.getLogger("guardops.guard")


class Segment:
    """A file of records that is no longer written to."""

    def __init__(self, path: Path, name: Name, size: int) -> None:
        self.path = path
        self.name = name
        self.size = size
        self.corrupt = False

    def records(self, longest: int) -> list[bytes]:
        """Return its records; what can't be read counts as corrupt."""
        try:
            content = read(self.path, longest)
        except OSError:
            content = Content([], corrupt=self.path.exists())
        self.corrupt = content.corrupt
        return content.records


class Batch:
    """Records to be sent together, and where they are kept until they are delivered."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.segments: list[Segment] = []
        self.from_memory: list[tuple[int, bytes]] = []


class _Open:
    """The segment that records of one rank are appended to."""

    def __init__(self, path: Path, name: Name) -> None:
        self.path = path
        self.name = name
        self.size = 0
        self.count = 0
        self.dirty = True
        self.torn = False
        self.fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)

    @property
    def is_full(self) -> bool:
        """Whether no further record may be written; none may where half of one could not be taken back."""
        return self.torn or self.count >= MAX_RECORDS

    def append(self, line: bytes) -> None:
        """Write a line whole or not at all; raises OSError."""
        try:
            written = os.write(self.fd, line)
            if written != len(line):
                raise OSError(f"only {written} of {len(line)} bytes were taken")
        except OSError:
            self.torn = True
            os.ftruncate(self.fd, self.size)
            self.torn = False
            raise
        self.size += len(line)
        self.count += 1
        self.dirty = True


class Spool:
    """One process's part of a folder. Any thread may append; one thread takes batches and settles them.

    Ranks are small numbers: records of a higher one outlive those of a lower one where the spool is full, and
    are sent after them.
    """

    def __init__(
        self, folder: Path, *, max_bytes: int = MAX_BYTES, max_memory_bytes: int = MAX_MEMORY_BYTES
    ) -> None:
        self.folder = folder
        self.dropped: Counter[int] = Counter()
        """How many records of each rank there was no room for; whoever tells of them clears it."""
        self._max_bytes = max_bytes
        self._max_memory_bytes = max_memory_bytes
        self._segment_bytes = max(1, min(MAX_SEGMENT_BYTES, max_bytes // _LEAST_SEGMENTS))
        self._forget()

    def _forget(self) -> None:
        self._lock = Lock()
        self._claim: Claim | None = None
        self._number = 0
        self._open: dict[int, _Open] = {}
        self._sealed: list[Segment] = []
        self._in_hand: set[Path] = set()
        self._unsynced: list[int] = []
        self._memory: deque[tuple[int, bytes]] = deque()
        self._memory_bytes = 0
        self._others = 0
        self._failing = False

    # -- writing -----------------------------------------------------------------------------------------

    def append(self, rank: int, record: bytes) -> None:
        """Keep a record (JSON without line breaks) until it is delivered."""
        with self._lock:
            try:
                self._write(rank, framed(record))
            except OSError as error:
                self._note_failure(error)
                self._remember(rank, record)
            else:
                self._note_success()

    def _write(self, rank: int, line: bytes) -> None:
        opened = self._open.get(rank)
        if opened is not None and (opened.is_full or opened.size >= self._segment_bytes):
            self._seal(rank)
            opened = None
        if opened is None:
            owner = self._claimed().owner
            self._number += 1
            name = Name(owner, rank, self._number)
            opened = self._open[rank] = _Open(self.folder / str(name), name)
        opened.append(line)
        self._make_room()

    def _claimed(self) -> Claim:
        if self._claim is None:
            make_private(self.folder)
            self._claim = Claim(self.folder)
        return self._claim

    def _seal(self, rank: int) -> None:
        opened = self._open.pop(rank)
        self._sealed.append(Segment(opened.path, opened.name, opened.size))
        if opened.dirty and len(self._unsynced) < _MAX_UNSYNCED:
            self._unsynced.append(opened.fd)
        else:
            os.close(opened.fd)

    def _make_room(self) -> None:
        most = max(self._max_bytes - self._others, 2 * self._segment_bytes)
        while self._held() > most:
            spare = [segment for segment in self._sealed if segment.path not in self._in_hand]
            if not spare:
                return
            lowest = min(spare, key=lambda segment: (segment.name.rank, segment.name.number))
            lost = len(lowest.records(self._longest))
            self._sealed.remove(lowest)
            lowest.path.unlink(missing_ok=True)
            self._note_dropped(lowest.name.rank, lost)

    def _held(self) -> int:
        return sum(segment.size for segment in self._sealed) + sum(one.size for one in self._open.values())

    @property
    def _longest(self) -> int:
        return self._segment_bytes + _MAX_RECORD_BYTES

    def _remember(self, rank: int, record: bytes) -> None:
        self._memory.append((rank, record))
        self._memory_bytes += len(record)
        while self._memory_bytes > self._max_memory_bytes and self._memory:
            lowest = min(range(len(self._memory)), key=lambda place: self._memory[place][0])
            lost_rank, lost = self._memory[lowest]
            del self._memory[lowest]
            self._memory_bytes -= len(lost)
            self._note_dropped(lost_rank, 1)

    def _note_dropped(self, rank: int, count: int) -> None:
        self.dropped[rank] += count
        _log.warning("The spool %s is full: %d events of rank %d were dropped.", self.folder, count, rank)

    def _note_failure(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            _log.warning("The spool %s can't be written (%s): events stay in memory.", self.folder, error)

    def _note_success(self) -> None:
        """After a success the disk takes what had to stay in memory."""
        self._failing = False
        try:
            while self._memory:
                rank, record = self._memory[0]
                self._write(rank, framed(record))
                self._memory.popleft()
                self._memory_bytes -= len(record)
        except OSError as error:
            self._note_failure(error)

    # -- sending -----------------------------------------------------------------------------------------

    def take(self, most_records: int = MAX_RECORDS, most_bytes: int = 7 * 1024 * 1024) -> Batch | None:
        """Return the next records to be sent, the lowest rank and the oldest first; None where none wait.

        They stay where they are until :meth:`settle`, and are given again if that is never called.
        """
        batch = Batch()
        with self._lock:
            for rank in [rank for rank, opened in self._open.items() if opened.count]:
                if all(segment.name.rank != rank for segment in self._sealed):
                    self._seal(rank)
            waiting = sorted(self._sealed, key=lambda segment: (segment.name.rank, segment.name.number))
            size = 0
            for segment in waiting:
                if batch.segments and size + segment.size > most_bytes:
                    break
                size += segment.size
                batch.segments.append(segment)
            self._in_hand = {segment.path for segment in batch.segments}
            if not batch.segments:
                batch.from_memory = list(self._memory)[:most_records]
        for place, segment in enumerate(batch.segments):
            records = segment.records(self._longest)
            if batch.records and len(batch.records) + len(records) > most_records:
                del batch.segments[place:]
                break
            batch.records += records
        batch.records += [record for _, record in batch.from_memory]
        return batch if batch.segments or batch.from_memory else None

    def settle(self, batch: Batch) -> None:
        """Forget a batch that is delivered; a corrupt segment of it is set aside."""
        with self._lock:
            self._in_hand.clear()
            for segment in batch.segments:
                if segment in self._sealed:
                    self._sealed.remove(segment)
                with suppress(OSError):
                    self._put_away(segment)
            for item in batch.from_memory:
                with suppress(ValueError):  # it may have been dropped, or written, meanwhile
                    self._memory.remove(item)
                    self._memory_bytes -= len(item[1])

    def _put_away(self, segment: Segment) -> None:
        if not segment.corrupt:
            segment.path.unlink(missing_ok=True)
            return
        _log.warning("The spool's segment %s is damaged: it is set aside.", segment.path)
        segment.path.rename(segment.path.with_suffix(CORRUPT_SUFFIX))
        aside = sorted(self.folder.glob(f"*{CORRUPT_SUFFIX}"), key=lambda path: path.stat().st_mtime)
        for path in aside[:-_MAX_CORRUPT]:
            path.unlink(missing_ok=True)

    @property
    def waiting(self) -> bool:
        """Whether anything is still to be sent."""
        with self._lock:
            return bool(self._sealed or self._memory or any(opened.count for opened in self._open.values()))

    def sync(self) -> None:
        """Put what was appended on the disk itself. Waits for the disk, without keeping others waiting."""
        with self._lock:
            finished, self._unsynced = self._unsynced, []
            written = [opened for opened in self._open.values() if opened.dirty]
            for opened in written:
                opened.dirty = False
            copies = [os.dup(opened.fd) for opened in written]
        for fd in finished + copies:
            with suppress(OSError):
                os.fdatasync(fd)
            os.close(fd)
        if finished or copies:
            with suppress(OSError):
                _sync_folder(self.folder)

    def adopt(self) -> int:
        """Take over the segments of processes that have died; return how many there were."""
        taken = 0
        try:
            for owner in owners(self.folder) - {self._owner}:
                with estate(self.folder, owner) as names:
                    taken += sum(self._inherit(name) for name in names)
            self._others = sum(self._sizes_of_others())
        except OSError as error:
            _log.debug("The spool %s can't be looked through: %s", self.folder, error)
        return taken

    def _inherit(self, name: Name) -> bool:
        with self._lock:
            self._number += 1
            own = Name(self._claimed().owner, name.rank, self._number)
            path = self.folder / str(own)
            try:
                (self.folder / str(name)).rename(path)
                self._sealed.append(Segment(path, own, path.stat().st_size))
            except FileNotFoundError:
                return False  # another living process was faster
        return True

    @property
    def _owner(self) -> str:
        return self._claim.owner if self._claim is not None else ""

    def _sizes_of_others(self) -> Iterator[int]:
        for entry in os.scandir(self.folder):
            name = parse_name(entry.name)
            if name is not None and name.owner != self._owner:
                with suppress(OSError):
                    yield entry.stat().st_size

    # -- the process's ends ------------------------------------------------------------------------------

    def close(self) -> None:
        """Write no more; what still waits is taken over by the next process."""
        with self._lock:
            for rank in list(self._open):
                self._seal(rank)
        self.sync()
        with self._lock:
            if self._claim is not None:
                with suppress(OSError):
                    self._claim.release()
                self._claim = None

    def after_fork(self) -> None:
        """In a forked child: leave everything to the parent and begin anew."""
        for opened in self._open.values():
            os.close(opened.fd)
        for fd in self._unsynced:
            os.close(fd)
        if self._claim is not None:
            self._claim.forget()
        self.dropped.clear()
        self._forget()


def make_private(folder: Path) -> None:
    """Make a folder that its owner alone can look into; raises OSError where that can't be had."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
