"""The worker's side must run where pydantic and cyclopts are not installed."""

import subprocess
import sys

import pytest

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
        "kernelwright.tasks.reference",
        "kernelwright.core.errors",
    ],
)
def test_a_worker_needs_neither_pydantic_nor_cyclopts(module):
    done = subprocess.run(
        [sys.executable, "-c", _BLOCK, module], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
