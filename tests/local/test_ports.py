from __future__ import annotations

import socket

import pytest

from guardops.local import ports
from guardops.local.errors import LocalError


def test_a_busy_port_moves_on() -> None:
    with ports.listen("127.0.0.1", 0) as first:
        taken = first.getsockname()[1]
        with ports.listen("127.0.0.1", taken) as second:
            assert taken < second.getsockname()[1] < taken + 50


def test_a_closed_door_leaves_its_port_free_at_once() -> None:
    first = ports.listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    client = socket.create_connection(("127.0.0.1", port))
    first.accept()[0].close()  # our end waits in TIME_WAIT
    client.close()
    first.close()
    with ports.listen("127.0.0.1", port) as second:
        assert second.getsockname()[1] == port


def test_no_free_port_in_reach_is_an_error_with_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_TRIES", 1)
    with ports.listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(LocalError, match=f"{port} to {port}"):
            ports.listen("127.0.0.1", port)


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(LocalError, match=r"192\.0\.2\.1"):
        ports.listen("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_the_address_shown_can_be_opened_here(host: str) -> None:
    with ports.listen(host, 0) as door:
        assert ports.url(door, host) == f"http://127.0.0.1:{door.getsockname()[1]}"
