"""An ordinary user for tests that run as root: another uid, and a world it can reach."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_NO_PACKAGE = shutil.ignore_patterns("playwright", "mypy*", "ruff*")
_NO_SOURCE = shutil.ignore_patterns("test", "tests", "idlelib", "*-packages", ".git", ".venv", ".guardops")


class Outsider:
    """Runs commands of this checkout as ``uid``.

    It works on a copy (hard links) of interpreter, packages and checkout: the originals may lie in
    root's own 0700 home, where no other user gets.
    """

    def __init__(self, world: Path, uid: int) -> None:
        self.uid = uid
        self.home = world / f"home-{uid}"
        self.home.mkdir(mode=0o700)
        os.chown(self.home, uid, uid)
        self.python = world / "python" / "bin" / f"python3.{sys.version_info.minor}"
        self.packages = world / "packages"
        self.checkout = world / "checkout"

    @staticmethod
    def make_world(world: Path) -> None:
        world.chmod(0o755)
        base = Path(sys.base_prefix)
        version = f"python3.{sys.version_info.minor}"
        (world / "python" / "bin").mkdir(parents=True)
        _link(str((base / "bin" / version).resolve()), str(world / "python" / "bin" / version))
        (world / "python" / "lib").mkdir()
        for library in (base / "lib").glob("libpython*.so*"):
            _link(str(library), str(world / "python" / "lib" / library.name))
        copies = (
            (base / "lib" / version, world / "python" / "lib" / version, _NO_SOURCE),
            (Path(site.getsitepackages()[0]), world / "packages", _NO_PACKAGE),
            (CHECKOUT, world / "checkout", _NO_SOURCE),
        )
        for source, target, ignored in copies:
            shutil.copytree(source, target, copy_function=_link, ignore=ignored, symlinks=True)

    def start(self, arguments: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
        """Start the copied interpreter with ``arguments`` as the outsider."""
        return subprocess.Popen(
            [str(self.python), *arguments],
            user=self.uid,
            group=self.uid,
            extra_groups=[],
            cwd="/",
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "LD_LIBRARY_PATH": str(self.python.parents[1] / "lib"),
                "PYTHONPATH": f"{self.checkout}{os.pathsep}{self.packages}",
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _link(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
    return target
