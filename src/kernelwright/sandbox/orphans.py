"""The judge's own children, and what its workers leave behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_known: set[int] = set()


def adopt(pid: int) -> None:
    """Registers a child of ours that is no worker (the zygote), so that no sweep ends it."""
    _known.add(pid)


def disown(pid: int) -> None:
    """Forgets a child that has ended."""
    _known.discard(pid)


def kill_orphans() -> int:
    """Ends descendants of workers that outlived them. Returns how many there were.

    The judge is their subreaper, so they are its children; and since every worker is in a session
    of its own, none of them can be in the judge's session, where the user's own children are.
    """
    ended, session = 0, os.getsid(0)
    for pid in [pid for task in threads_of(os.getpid()) for pid in children_of(task)]:
        if pid in _known:
            continue
        try:
            if os.getsid(pid) != session:
                kill_and_reap(pid)
                ended += 1
        except ProcessLookupError:
            continue
    return ended


def kill_and_reap(pid: int) -> None:
    """Ends a child and takes its status; does nothing where there is none."""
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def threads_of(pid: int) -> list[Path]:
    """The /proc folders of a process's threads; none where it has ended."""
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def children_of(task: Path) -> list[int]:
    """Processes that this thread has started and that are still its children."""
    try:
        return [int(pid) for pid in (task / "children").read_text().split()]
    except OSError:
        return []


def runs(pid: int) -> bool:
    """Whether a process has not ended; one that no one has waited for yet has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"
