from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule
from django.db import connection

from guardops.beat import LOCK, SingleScheduler

pytestmark = pytest.mark.django_db(transaction=True)


class Recording(SingleScheduler):
    """A scheduler that notes what it would send."""

    def __init__(self, app: Celery) -> None:
        self.sent: list[str] = []
        super().__init__(app=app)

    def apply_async(self, entry: ScheduleEntry, *args: object, **kwargs: object) -> None:
        self.sent.append(entry.task)

    @property
    def producer(self) -> None:
        return None


@pytest.fixture
def beats() -> Iterator[tuple[Recording, Recording]]:
    app = Celery(set_as_current=False)
    app.conf.beat_schedule = {"often": {"task": "work", "schedule": schedule(0)}}
    beats = Recording(app), Recording(app)
    yield beats
    for beat in beats:
        beat.close()


def test_of_two_beats_one_ticks(beats: tuple[Recording, Recording]) -> None:
    first, second = beats
    for _ in range(3):
        first.tick()
        second.tick()
    assert first.sent == ["work"] * 3
    assert second.sent == []


def test_the_second_takes_over_when_the_first_is_gone(beats: tuple[Recording, Recording]) -> None:
    first, second = beats
    first.tick()
    second.tick()
    first.close()
    second.tick()
    assert second.sent == ["work"]


def test_a_beat_whose_session_was_cut_stops_until_it_holds_the_lock_again(
    beats: tuple[Recording, Recording],
) -> None:
    first, second = beats
    first.tick()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
            " WHERE l.locktype = 'advisory' AND l.objid = %s AND d.datname = current_database()",
            [LOCK],
        )
    second.tick()
    first.tick()
    assert (first.sent, second.sent) == (["work"], ["work"])
