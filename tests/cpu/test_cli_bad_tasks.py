"""Task files that cannot be judged: one clear line each, status 2, no traceback."""

from __future__ import annotations

import sys

import pytest

import program

HEAD = "import torch\nfrom torch import nn\n"
MODEL = """
class Model(nn.Module):
    def forward(self, x):
        return x + 1
"""
INPUTS = """
def get_inputs():
    return [torch.randn(8, 8)]
def get_init_inputs():
    return []
"""
BAD_TASKS = {
    "does not import": (HEAD + "1 / 0\n" + MODEL + INPUTS, "line 3: ZeroDivisionError"),
    "lacks Model": (HEAD + INPUTS, "it does not define Model"),
    "missing package": (HEAD + "import einopsen\n" + MODEL + INPUTS, "pip install einopsen"),
    "non-tensors": (HEAD + MODEL.replace("x + 1", "'text'") + INPUTS, "returns"),
    "forward fails": (
        HEAD + MODEL.replace("x + 1", "x @ x[:3]") + INPUTS,
        "task.py:6: RuntimeError",
    ),
    "out of memory": (
        HEAD + MODEL + INPUTS.replace("torch.randn(8, 8)", "torch.ones(1 << 45)"),
        "memory",
    ),
    "crashes": (HEAD + "import os\nos.abort()\n" + MODEL + INPUTS, "process died"),
    "random": (HEAD + MODEL.replace("x + 1", "torch.rand_like(x)") + INPUTS, "random"),
}
NEVER_ENDS = HEAD + "while True: pass\n"
SHORT_PATIENCE = (
    "import kernelwright.judge.preflight as p; p._LOAD_S = 4.0; "
    "from kernelwright.cli.app import main; main()"
)
KERNEL = """
#include "kernelwright.h"
extern "C" void kernel(const kw_tensor* in, int n_in, const kw_tensor* out, int n_out) {}
"""


def _judge(tmp_path, source, *, first=(str(program.PROGRAM),)):
    (tmp_path / "task.py").write_text(source)
    (tmp_path / "k.cpp").write_text(KERNEL)
    words = ("judge", tmp_path / "k.cpp", "--task", tmp_path / "task.py", "--tier", "T0", "--json")
    return program.run(*words, first=first)


@pytest.mark.parametrize("name", BAD_TASKS)
def test_a_task_that_cannot_be_judged_is_one_clear_line(tmp_path, name):
    source, said = BAD_TASKS[name]
    ran = _judge(tmp_path, source)
    assert ran.status == 2, ran.err
    assert said in ran.complaint
    assert "task" in ran.complaint
    assert ran.json["error"] == ran.complaint.removeprefix("kernelwright: ")


def test_a_task_that_never_ends_is_cut(tmp_path):
    ran = _judge(tmp_path, NEVER_ENDS, first=(sys.executable, "-c", SHORT_PATIENCE))
    assert ran.status == 2, ran.err
    assert "took more than 4 s" in ran.complaint
    assert "loop that never ends" in ran.complaint


def test_a_package_on_the_users_pythonpath_is_found(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "ownlib.py").write_text("WIDTH = 8\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    done = _judge(tmp_path, HEAD + "import ownlib\n" + MODEL + INPUTS)
    assert done.status == 0, done.err
