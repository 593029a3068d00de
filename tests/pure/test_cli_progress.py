"""The live display: plain lines in a pipe, a table on a terminal, whatever a message holds."""

from __future__ import annotations

import io
import os
import pty
import time

import pytest

import records
from kernelwright.cli.progress import Progress
from kernelwright.core import Rejected

NASTY = "[/red] [bold x=1 \u2603 expected ']' before '[' token\n note: [-Werror]"


def _show_something(*, as_json: bool) -> None:
    with Progress("softmax", 90.0, time.monotonic(), as_json=as_json) as progress:
        progress.event("baseline: [eager]")
        for number in range(15):
            verdict = records.verdict(Rejected(stage="build", reason=f"{number} {NASTY}"))
            progress.judged(records.candidate(idea="idea [/b]"), verdict)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_in_a_pipe_each_verdict_is_one_plain_line(monkeypatch, stream):
    out = io.StringIO()
    monkeypatch.setattr(f"sys.{stream}", out)
    _show_something(as_json=stream == "stderr")
    lines = out.getvalue().splitlines()
    assert len(lines) == 16
    assert "#15  T1  idea [/b]: rejected (build): 14 [/red]" in lines[-1]


def test_on_a_terminal_the_last_verdicts_stay_in_a_table(monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        os.set_blocking(ours, False)
        shown = []
        with Progress("softmax", 90.0, time.monotonic(), as_json=False) as progress:
            for number in range(15):
                reason = f"{number} {NASTY}"
                verdict = records.verdict(Rejected(stage="build", reason=reason))
                progress.judged(records.candidate(idea="idea [/b]"), verdict)
                terminal.flush()
                shown.append(_drain(ours))
        shown.append(_drain(ours))
    os.close(ours)
    last = shown[-1].decode()
    assert "idea [/b]" in last
    assert "14 [/red]" in last
    assert "of 90 s" in last
    assert " 1 │" not in last, "only the last dozen"


def _drain(fd: int) -> bytes:
    found = b""
    while True:
        try:
            found += os.read(fd, 1 << 16)
        except BlockingIOError:
            return found
