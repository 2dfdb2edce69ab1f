"""People who look at pages all the time: what the web door does while guards wait at the other one."""

from __future__ import annotations

import http.client
import multiprocessing
import threading
from contextlib import ExitStack, closing
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from guardops.local import ports
from tests.gate_process import ManagedProcess

READERS = 4
PAGES = ("/", "/runs/")


def _read(pipe: Connection, address: tuple[str, int], cookie: str) -> None:
    """Look at pages in a few threads until told to stop; say how many there were."""
    stop, pages = threading.Event(), [0] * READERS

    def look(place: int) -> None:
        with closing(http.client.HTTPConnection(*address, timeout=60)) as client:
            while not stop.is_set():
                client.request("GET", PAGES[pages[place] % len(PAGES)], headers={"Cookie": cookie})
                response = client.getresponse()
                response.read()
                if response.status != 200:
                    raise SystemExit(f"a page was answered with {response.status}")
                pages[place] += 1

    threads = [threading.Thread(target=look, args=(place,)) for place in range(READERS)]
    for thread in threads:
        thread.start()
    pipe.recv()
    stop.set()
    for thread in threads:
        thread.join()
    pipe.send(sum(pages))


class PageLoad:
    """A web process and its readers, from the block's beginning to its end; ``pages`` counts afterwards."""

    def __init__(self, database_url: str, cookie: str) -> None:
        self.pages = 0
        self._stack = ExitStack()
        self._url, self._cookie = database_url, cookie

    def __enter__(self) -> Self:
        door = self._stack.enter_context(closing(ports.listen("127.0.0.1", 0)))
        fd = door.fileno()
        self._stack.enter_context(ManagedProcess(self._url, "web", "--fd", str(fd), pass_fds=(fd,)))
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, door.getsockname()[:2], self._cookie)
        reader = context.Process(target=_read, args=arguments, daemon=True)
        reader.start()
        self._stack.callback(reader.join, 30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.send(None)
        self.pages = self._pipe.recv() if self._pipe.poll(60) else 0
        self._stack.close()


def session_cookie() -> str:
    """Log an operator in and return the browser's cookie."""
    from django.conf import settings
    from django.test import Client

    from tests.factories import make_operator

    client = Client()
    client.force_login(make_operator())
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
