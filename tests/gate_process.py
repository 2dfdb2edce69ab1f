"""A real gate, and a real fold beside it, on a socket that outlives both: for faults and benchmarks."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from types import TracebackType
from typing import Self

from guardops.local import ports

CHECKOUT = Path(__file__).resolve().parents[1]


class ManagedProcess:
    """One `manage.py` process, killed when the block ends."""

    def __init__(
        self, database_url: str, *arguments: str, pass_fds: tuple[int, ...] = (), **environment: str
    ) -> None:
        self.database_url = database_url
        self._arguments, self._more = arguments, environment
        self._command = [sys.executable, str(CHECKOUT / "manage.py"), *arguments]
        self._pass_fds = pass_fds
        self._environment = {
            **os.environ,
            "DATABASE_URL": database_url,
            "GUARDOPS_PROCESS": arguments[0],
            "GUARDOPS_LOG_LEVEL": "WARNING",
            **environment,
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, cwd=CHECKOUT, env=self._environment, pass_fds=self._pass_fds
        )

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class GateProcess(ManagedProcess):
    """A gate. Its socket stays open while it is down, as under the supervisor: clients wait for the next."""

    def __init__(self, database_url: str, **environment: str) -> None:
        self.door = ports.listen("127.0.0.1", 0)
        self.address: tuple[str, int] = self.door.getsockname()[:2]
        fd = self.door.fileno()
        super().__init__(database_url, "gate", "--fd", str(fd), pass_fds=(fd,), **environment)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address[1]}"

    def beside(self) -> ManagedProcess:
        """Return another gate on the same socket."""
        return ManagedProcess(
            self.database_url, *self._arguments, pass_fds=(self.door.fileno(),), **self._more
        )

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        assert self.process is not None
        self.signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.process = None
        return code

    def wait_ready(self, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while self.ask("/readyz") != 200:
            if time.monotonic() > deadline:
                raise TimeoutError("the gate does not get ready")
            time.sleep(0.05)

    def ask(self, path: str, timeout: float = 5.0) -> int:
        """Return the status of a GET, 0 where there was no answer."""
        try:
            with closing(http.client.HTTPConnection(*self.address, timeout=timeout)) as client:
                client.request("GET", path)
                return client.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0

    def __enter__(self) -> Self:
        super().__enter__()
        with ExitStack() as undo:
            undo.callback(self.__exit__, None, None, None)
            self.wait_ready()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self.door.close()


class FoldProcess(ManagedProcess):
    """A fold that counts every second."""

    def __init__(self, database_url: str, **environment: str) -> None:
        super().__init__(database_url, "fold", "--loop", **environment)
