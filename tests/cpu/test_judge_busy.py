"""On a machine that others keep busy no win is claimed; what is right stays right."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kernelwright.core import Candidate, Inconclusive, Rejected, SourceFile
from kernelwright.judge import open_session
from kernelwright.tasks.catalog import find_task

SLOW = """
import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        for _ in range(3):
            x = torch.sort(x.flip(-1), -1).values
        return x


def get_inputs():
    return [torch.randn(64, 512)]


def get_init_inputs():
    return []
"""
ONE_SORT = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.sort(x, -1).values
"""


def _spin() -> None:
    while True:
        pass


@contextmanager
def busy_processes(count: int) -> Generator[None]:
    context = multiprocessing.get_context("fork")
    spinning = [context.Process(target=_spin, daemon=True) for _ in range(count)]
    for one in spinning:
        one.start()
    time.sleep(0.1)
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.join()


@pytest.mark.slow
@pytest.mark.serial
def test_a_win_beside_busy_processes_is_inconclusive(tmp_path: Path) -> None:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    winner = Candidate(kind="python", sources=(SourceFile(name="k.py", text=ONE_SORT),))
    wrong = winner.model_copy(
        update={"sources": (SourceFile(name="k.py", text=ONE_SORT.replace(".values", "[0] * 2")),)}
    )
    with open_session(find_task(str(path))) as session, busy_processes(3):
        outcome = session.judge(winner, "T2").outcome
        assert isinstance(outcome, Inconclusive), outcome
        assert "cores of this machine busy" in outcome.reason
        assert isinstance(session.judge(wrong, "T2").outcome, Rejected)
