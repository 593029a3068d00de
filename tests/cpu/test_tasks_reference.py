"""Bad task files: one clear line each, with what, where and what to do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from kernelwright.core import TaskUnusable
from kernelwright.tasks.reference import ReferenceSpec, load_reference
from kernelwright.tasks.slots import read_signature
from references import load_source, module_source

IDENTITY = "def forward(self, x):\n    return x + 1"


def _refusal(folder: Path, source: str) -> str:
    with pytest.raises(TaskUnusable) as caught:
        read_signature(load_source(folder, source), {})
    text = str(caught.value)
    assert text.startswith(str(folder / "task.py"))
    assert "\n" not in text
    assert text.endswith(".")
    return text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def broken(:\n", "does not import: SyntaxError: .*line 1"),
        ("import torch\n\nx = 1 / 0\n", "does not import: line 3: ZeroDivisionError"),
        ("import sys\nsys.exit(3)\n", "does not import: line 2: SystemExit"),
        ("import einops_of_a_sort\n", "needs the package 'einops_of_a_sort'. pip install"),
        ("import torch.nothing_here\n", "needs the module 'torch.nothing_here'"),
        ("x = 1\n", "does not define Model"),
        ("class Model: ...\nModel = 3\n", "does not define Model"),
        ("class Model: ...\n", "does not define get_inputs"),
        (
            "class Model: ...\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n",
            "Model is not an nn.Module",
        ),
        (module_source(IDENTITY, init="3"), "get_init_inputs.. returns int"),
        (module_source(IDENTITY, init="[1, 2, 3]"), "Model.. fails: TypeError"),
        (module_source(IDENTITY, "['text']"), "get_inputs.. returns no list of tensors"),
        (module_source(IDENTITY, "torch.ones(3)"), "get_inputs.. returns no list of tensors"),
        (module_source(IDENTITY, "1 / 0"), "get_inputs.. fails: ZeroDivisionError"),
        (module_source(IDENTITY, "[]"), "forward fails: TypeError"),
        (module_source("def forward(self, x):\n    return 'text'"), "forward returns str"),
        (module_source("def forward(self, x):\n    return x, 3"), "forward returns tuple"),
        (module_source("def forward(self, x):\n    return ()"), "forward returns tuple"),
        (module_source("def forward(self, x):\n    return x.add_(1)"), "writes one of its inputs"),
        (
            module_source("def forward(self, x):\n    return x @ x"),
            "forward fails: RuntimeError: mat1 and mat2",
        ),
        (
            module_source(
                "def __init__(self):\n"
                "    super().__init__()\n"
                "    self.w = nn.Parameter(torch.ones(16))\n\n"
                "def forward(self, x):\n"
                "    self.w.add_(1)\n"
                "    return x * self.w"
            ),
            "writes its parameter w",
        ),
        ("DOMAIN = [3]\n" + module_source(IDENTITY), "DOMAIN is no dict"),
        ("DOMAIN = {'n': (1, 4)}\n" + module_source(IDENTITY), "DOMAIN names 'n' but no default"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, source: str, expected: str) -> None:
    text = _refusal(tmp_path, source)
    assert re.search(expected, text), text


def test_a_class_that_is_not_there_names_those_that_are(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("from torch import nn\nclass Block(nn.Module): ...\n")
    spec = ReferenceSpec("module", str(path), "Blok", (((2, 2), "float32"),))
    with pytest.raises(TaskUnusable, match=r"does not define Blok\. It defines Block"):
        load_reference(spec)


def test_a_class_with_inputs_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(module_source("def forward(self, x, i):\n    return x[i]"))
    inputs = (((9, 4), "float32"), ((3,), "int64"))
    reference = load_reference(ReferenceSpec("module", str(path), "Model", inputs))
    signature = read_signature(reference, {})
    assert [slot.dtype for slot in signature.slots] == ["float32", "int64"]
    assert signature.outputs[0].shape == (3, 4)


def test_a_task_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_task.py").write_text("WIDTH = 5\n")
    source = "from neighbour_of_task import WIDTH\n" + module_source(
        IDENTITY, "[torch.randn(2, WIDTH)]"
    )
    assert read_signature(load_source(tmp_path, source), {}).slots[0].shape == (2, 5)


def test_the_seed_is_set_right_before_the_constructor(tmp_path: Path) -> None:
    body = """
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)

    def forward(self, x):
        return self.linear(x)
    """
    source = module_source(body, "[torch.randn(2, 8)]", "[int(torch.randn(3).numel()) + 5]")
    weight = load_source(tmp_path, source).build({}, seed=42).linear.weight
    torch.manual_seed(42)
    assert torch.equal(weight, torch.nn.Linear(8, 8).weight)


def test_a_module_stays_in_train_mode(tmp_path: Path) -> None:
    assert load_source(tmp_path, module_source(IDENTITY)).build({}, seed=0).training
