"""`import kernelwright` is cheap, and its names are there however its rooms were reached first."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kernelwright
from kernelwright import Task
from kernelwright.core import TaskUnusable


@pytest.mark.parametrize(
    "first", ["import kernelwright", "import kernelwright.judge.session, kernelwright.optimize"]
)
def test_the_rooms_that_share_a_name_are_functions_and_rooms(first):
    code = f"""{first}
import kernelwright
from kernelwright.judge import open_session
import kernelwright.optimize.loop as loop
assert callable(kernelwright.judge) and callable(kernelwright.optimize), kernelwright.judge
try:
    kernelwright.judge(None, "no such task")
except kernelwright.KernelwrightError as error:
    assert "no task" in str(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_importing_it_does_not_import_torch():
    code = "import sys, kernelwright; assert 'torch' not in sys.modules; kernelwright.Candidate"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'optimise'"):
        kernelwright.optimise  # noqa: B018


def test_a_class_without_a_file_is_refused():
    from torch import nn

    class Local(nn.Module):
        pass

    with pytest.raises(TaskUnusable, match=r"no file defines this class\. Put it at the top level"):
        Task.from_module(Local, "3x3")
