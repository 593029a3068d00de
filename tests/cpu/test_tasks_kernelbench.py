"""KernelBench's problems load at full size on the meta device, or say by name why not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernelwright.core import TaskUnusable
from kernelwright.tasks.catalog import find_task, reference_spec
from kernelwright.tasks.reference import load_reference
from kernelwright.tasks.slots import read_signature

ROOT = Path(__file__).resolve().parents[2].parent / "shared" / "kernelbench"
EINOPS = "needs the package 'einops'. pip install einops"
NEEDS_VALUES = "Model() fails: RuntimeError: Tensor.item() cannot be called on meta tensors"
UNREADABLE = {(3, 29): NEEDS_VALUES, (3, 30): NEEDS_VALUES, (3, 48): EINOPS, (3, 49): EINOPS}
RANDOM = {(2, 66), (2, 83), (3, 35)}
# Step by step on the meta device, an LSTM of 512 steps takes ten seconds.
RECURRENT = range(35, 43)

pytestmark = pytest.mark.skipif(not ROOT.is_dir(), reason=f"{ROOT} is absent")


def _read(level: int, problems: range) -> tuple[int, dict[tuple[int, int], str], set]:
    reasons, random, read = {}, set(), 0
    for problem in problems:
        task = find_task(f"kernelbench:{level}/{problem}", kernelbench=ROOT)
        assert task.one_shape
        try:
            reference = load_reference(reference_spec(task))
            with torch.device("meta"):
                signature = read_signature(reference, {})
        except TaskUnusable as error:
            reasons[level, problem] = str(error)
            continue
        read += 1
        assert signature.slots
        assert signature.outputs
        if signature.random:
            random.add((level, problem))
    return read, reasons, random


@pytest.mark.parametrize(
    ("level", "problems"),
    [
        (1, range(1, 101)),
        (2, range(1, 101)),
        (3, range(1, 35)),
        (3, range(43, 51)),
        pytest.param(3, RECURRENT, marks=pytest.mark.slow),
    ],
    ids=["level 1", "level 2", "level 3 to 34", "level 3 from 43", "level 3 recurrent"],
)
def test_every_problem_reads_or_says_why(level: int, problems: range) -> None:
    read, reasons, random = _read(level, problems)
    mine = {(level, problem) for problem in problems}
    try:
        import einops
    except ImportError:
        einops = None
    expected = {at: why for at, why in UNREADABLE.items() if at in mine}
    if einops is not None:
        expected = {at: why for at, why in expected.items() if why != EINOPS}
    assert reasons.keys() == expected.keys()
    assert all(expected[at] in reasons[at] for at in expected)
    assert read == len(mine) - len(expected)
    assert random == RANDOM & mine
