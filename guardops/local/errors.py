"""What can go wrong on this machine, said in words for the person at the terminal."""

from __future__ import annotations


class LocalError(Exception):
    """The local installation cannot go on; the message says why and what to do."""


class Stopped(Exception):
    """Somebody asked for the end while the start was still under way."""
