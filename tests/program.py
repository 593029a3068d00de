"""Runs the installed `kernelwright` program as a user does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from kernelwright.sandbox.orphans import children_of, threads_of

PROGRAM = Path(sys.executable).with_name("kernelwright")
PATIENCE_S = 240
_MARKS = ("kernelwright.sandbox.zygote", "/runner-")


class Ran(NamedTuple):
    """What one call of the program came to."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The last line of stdout, which `--json` promises to be one object."""
        return json.loads(self.out.splitlines()[-1])

    @property
    def complaint(self) -> str:
        """The last line of stderr, after checking that no traceback came before it."""
        assert "Traceback" not in self.err, self.err
        return self.err.splitlines()[-1]


def run(*words: str | Path, first: tuple[str, ...] = (str(PROGRAM),), **env: str) -> Ran:
    """Runs it to the end, with some environment variables changed."""
    done = subprocess.run(
        [*first, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**{k: v for k, v in os.environ.items() if k not in ("CC", "CXX")}, **env},
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def interrupt_after(line_with: str, *words: str | Path) -> tuple[Ran, list[str]]:
    """Starts it, sends Ctrl-C when a line with that text appears on stderr, waits for its end.

    Returns:
        What it came to, and the command lines of its workers that are still alive.
    """
    process = subprocess.Popen(
        [str(PROGRAM), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - tests start it from one thread
    )
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if line_with in line:
            assert workers_of(process.pid), "no worker runs, so their end would prove nothing"
            process.send_signal(signal.SIGINT)
            break
    out, rest = process.communicate(timeout=PATIENCE_S)
    time.sleep(0.5)
    return Ran(process.returncode, out, "".join(seen) + rest), workers_of(process.pid)


def _heed_interrupts() -> None:
    """A shell starts its background jobs with Ctrl-C ignored, and their children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def workers_of(judge_pid: int) -> list[str]:
    """Command lines of the living workers of a judge, each of which is told its judge's pid."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if str(judge_pid) in words and any(mark in " ".join(words) for mark in _MARKS):
            found.append(" ".join(words)[-200:])
    return found


def own_children() -> set[int]:
    """Children of this process: other open sessions', and those no one has waited for, included."""
    return {pid for task in threads_of(os.getpid()) for pid in children_of(task)}
