from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ShortCache(Generic[Value]):
    """A process's memory of at most ``size`` answers, none older than ``age``; threads may share it."""

    def __init__(self, *, size: int, age: timedelta) -> None:
        self._size = size
        self._age = age
        self._answers: OrderedDict[bytes, tuple[datetime, Value]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes, now: datetime) -> Value | None:
        found = self._answers.get(key)
        if found is None:
            return None
        learned, value = found
        # A clock that was set back must not make an answer live longer.
        return value if learned <= now < learned + self._age else None

    def put(self, key: bytes, value: Value, now: datetime) -> None:
        with self._lock:
            self._answers[key] = (now, value)
            self._answers.move_to_end(key)
            while len(self._answers) > self._size:
                self._answers.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._answers.clear()

    def __len__(self) -> int:
        return len(self._answers)
