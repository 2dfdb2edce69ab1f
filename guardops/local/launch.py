"""Become the given command, as a user it accepts, and never outlive the process that asked for it.

Run as a script by a bare interpreter (``python -I -S launch.py``), so that nothing of ours happens between
fork and exec in a parent that may have threads. It imports the standard library only.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import sys

_CLONE_NEWUSER = 0x10000000
_PR_SET_PDEATHSIG = 1


def enter_namespace(inner_uid: int, inner_gid: int) -> None:
    """Enter a user namespace in which our own user bears another number: PostgreSQL refuses to run as 0."""
    uid, gid = os.geteuid(), os.getegid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "the system refuses a user namespace")
    maps = {"setgroups": "deny", "gid_map": f"{inner_gid} {gid} 1", "uid_map": f"{inner_uid} {uid} 1"}
    for name, line in maps.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def become(uid: int, gid: int) -> None:
    """Give up root for good."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def die_with_parent(parent: int, signum: int) -> None:
    """Get ``signum`` when the parent dies. A change of user clears this, so it comes after that."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("the process that asked for this one is gone")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--namespace", metavar="UID:GID")
    parser.add_argument("--user", metavar="UID:GID")
    parser.add_argument("--needs", metavar="FOLDER", help="give up unless this folder can be written to")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--death-signal", type=int, default=signal.SIGTERM)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    for change, ids in ((enter_namespace, options.namespace), (become, options.user)):
        if ids:
            uid, gid = ids.split(":")
            change(int(uid), int(gid))
    if sys.platform == "linux":
        die_with_parent(options.parent, options.death_signal)
    if options.needs and not os.access(options.needs, os.R_OK | os.W_OK | os.X_OK):
        sys.exit(f"{options.needs} is out of reach")
    os.execv(options.command[0], options.command)


if __name__ == "__main__":
    main()
