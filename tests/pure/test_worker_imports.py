"""The worker's side must run where pydantic and cyclopts are not installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.sandbox import limits

_BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pydantic", "pydantic_core", "cyclopts", "rich"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import importlib
importlib.import_module(sys.argv[1])
"""


@pytest.mark.parametrize(
    "module",
    [
        "kernelwright.sandbox.zygote",
        "kernelwright.sandbox.worker",
        "kernelwright.backends.arms",
        "kernelwright.backends.graph_program",
        "kernelwright.backends.cuda_arms",
        "kernelwright.tasks.reference",
        "kernelwright.core.errors",
    ],
)
def test_a_worker_needs_neither_pydantic_nor_cyclopts(module):
    done = subprocess.run(
        [sys.executable, "-c", _BLOCK, module], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_workers_run_the_copy_of_the_package_that_starts_them(tmp_path):
    """Another one may be installed where their interpreter looks first."""
    shutil.copytree(Path(limits.__file__).parents[1], tmp_path / "kernelwright")
    code = (
        "from kernelwright.sandbox.limits import python_command; import subprocess; "
        "command = python_command(); code = command[3].rpartition('from kernelwright')[0]; "
        "command[3] = code + 'import kernelwright; print(kernelwright.__file__)'; "
        "subprocess.run(command, check=True)"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)
