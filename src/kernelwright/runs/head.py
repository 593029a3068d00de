"""The head of a new Run: what was asked, where, and with which versions."""

from __future__ import annotations

import datetime
import os
import platform
from importlib.metadata import version

import kernelwright
from kernelwright.core.run import Budget, RunRecord
from kernelwright.core.task import Task
from kernelwright.runs.folder import run_id


def new_record(task: Task, *, proposer: str, budget: Budget, command: tuple[str, ...]) -> RunRecord:
    """A record that begins now, on this machine.

    Args:
        task: what is searched for.
        proposer: name of who proposes.
        budget: what ends it.
        command: the words that start it again.
    """
    now = datetime.datetime.now(datetime.UTC)
    return RunRecord(
        id=run_id(task.name, now),
        task=task,
        proposer=proposer,
        budget=budget,
        started=now.isoformat(timespec="seconds"),
        command=command,
        machine=f"{platform.machine()}, {os.cpu_count()} cores",
        versions={
            "kernelwright": kernelwright.__version__,
            "torch": version("torch"),
            "python": platform.python_version(),
        },
    )
