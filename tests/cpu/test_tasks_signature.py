"""Every tensor of a module gets the role it plays, and binding gives it that tensor."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from kernelwright.core import TaskUnusable
from kernelwright.tasks.bind import BindingError, bind
from kernelwright.tasks.catalog import builtin_names, find_task, reference_spec
from kernelwright.tasks.reference import load_reference
from kernelwright.tasks.slots import Signature, read_signature
from references import Setting, builtin, load_source, module_source, setting

BATCH_NORM = """
def __init__(self):
    super().__init__()
    self.norm = nn.BatchNorm1d(16)

def forward(self, x):
    return self.norm(x)
"""
REMEMBERS = """
def __init__(self):
    super().__init__()
    self.hidden = torch.zeros(8, 16)

def forward(self, x):
    self.hidden = torch.tanh(x + self.hidden)
    return self.hidden * 2
"""
TIED = """
def __init__(self):
    super().__init__()
    self.a = nn.Linear(16, 16, bias=False)
    self.b = nn.Linear(16, 16, bias=False)
    self.b.weight = self.a.weight
    self.scale = torch.full((16,), 2.0)
    self.register_buffer("table", torch.arange(16))
    self.register_buffer("share", torch.full((16,), 0.5))

def forward(self, x):
    return self.b(self.a(x)) * self.scale + self.table * self.share
"""


def _roles(signature: Signature) -> dict[str, str]:
    return {slot.name: slot.role for slot in signature.slots}


def _setting(folder: Path, body: str, inputs: str = "[torch.randn(8, 16)]") -> Setting:
    return setting(load_source(folder, module_source(body, inputs)))


def test_batch_norm_in_train_mode_writes_state(tmp_path: Path) -> None:
    reference = load_source(tmp_path, module_source(BATCH_NORM))
    signature = read_signature(reference, {})
    assert _roles(signature) == {
        "input0": "input",
        "norm.weight": "parameter",
        "norm.bias": "parameter",
        "norm.running_mean": "state",
        "norm.running_var": "state",
        "norm.num_batches_tracked": "state",
    }
    assert [(o.name, o.role) for o in signature.outputs] == [
        ("output0", "output"),
        ("norm.running_mean", "state"),
        ("norm.running_var", "state"),
        ("norm.num_batches_tracked", "state"),
    ]
    with torch.device("meta"):
        assert read_signature(reference, {}) == signature


def test_batch_norm_in_eval_mode_reads_statistics(tmp_path: Path) -> None:
    body = BATCH_NORM.replace("BatchNorm1d(16)", "BatchNorm1d(16).eval()")
    roles = _roles(_setting(tmp_path, body).signature)
    assert roles["norm.running_mean"] == roles["norm.running_var"] == "statistic"
    assert roles["norm.num_batches_tracked"] == "constant"


def test_a_tensor_attribute_that_forward_rebinds_is_state(tmp_path: Path) -> None:
    one = _setting(tmp_path, REMEMBERS)
    assert _roles(one.signature) == {"input0": "input", "hidden": "state"}
    assert not one.signature.random
    values = one.drawer.draw("nominal", counter=1, weights=1)
    x, hidden = values
    for _ in range(2):  # the second call starts from the same state as the first
        output, after = one.eager(values)
        torch.testing.assert_close(after, torch.tanh(x + hidden))
        torch.testing.assert_close(output, 2 * after)


def test_an_attribute_that_forward_only_overwrites_is_no_state(tmp_path: Path) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.v = nn.Parameter(torch.randn(16, 16))
        self.weight = self.v.detach() * 2

    def forward(self, x):
        self.weight = self.v * 2
        return x @ self.weight
    """
    one = _setting(tmp_path, body)
    assert _roles(one.signature) == {"input0": "input", "v": "parameter", "weight": "constant"}
    x, v, _ = values = one.drawer.draw("nominal", counter=1, weights=1)
    torch.testing.assert_close(one.eager(values)[0], x @ (2 * v))


def test_tied_weights_are_one_slot_and_the_rest_are_constants(tmp_path: Path) -> None:
    one = _setting(tmp_path, TIED)
    assert _roles(one.signature) == {
        "input0": "input",
        "a.weight": "parameter",
        "table": "constant",
        "share": "constant",
        "scale": "constant",
    }
    values = one.drawer.draw("nominal", counter=1, weights=1)
    x, w, table, share, scale = values
    expected = (x @ w.T @ w.T) * scale + table * share
    torch.testing.assert_close(one.eager(values)[0], expected)


@pytest.mark.parametrize(
    "body",
    [
        "def forward(self, x):\n    return torch.nn.functional.dropout(x, 0.5, self.training)",
        "def forward(self, x):\n    return x + torch.randn(16)",
        "def forward(self, x):\n    return x * torch.rand_like(x)",
    ],
)
def test_a_draw_inside_forward_is_seen(tmp_path: Path, body: str) -> None:
    reference = load_source(tmp_path, module_source(body))
    signature = read_signature(reference, {})
    assert signature.random
    assert "random reference" in signature.notes[0]
    with torch.device("meta"):
        assert read_signature(reference, {}).random


@pytest.mark.parametrize(
    "body",
    [
        "def forward(self, x):\n    return nn.functional.dropout(x, 0.0, True)",
        "def forward(self, x):\n    return nn.functional.dropout(x, 0.5, False)",
        "def forward(self, x):\n    return nn.functional.scaled_dot_product_attention(x, x, x)",
    ],
)
def test_dropout_of_nothing_is_not_random(tmp_path: Path, body: str) -> None:
    reference = load_source(tmp_path, module_source(body, "[torch.randn(1, 1, 8, 16)]"))
    assert not read_signature(reference, {}).random
    with torch.device("meta"):
        assert not read_signature(reference, {}).random


def test_memory_that_is_no_tensor_is_seen(tmp_path: Path) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls
    """
    assert _setting(tmp_path, body).signature.random


def test_outputs_are_flattened_in_order_and_views_are_noted(tmp_path: Path) -> None:
    body = """
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(16))

    def forward(self, x):
        return {"a": x.t(), "b": [x.sum(0), (x.argmax(1), self.w)]}
    """
    signature = _setting(tmp_path, body).signature
    assert [o.shape for o in signature.outputs] == [(16, 8), (16,), (8,), (16,)]
    assert [o.dtype for o in signature.outputs] == ["float32", "float32", "int64", "float32"]
    assert signature.outputs[0].strides == (1, 16)
    assert len(signature.notes) == 2


def test_python_scalars_are_constants_of_the_task(tmp_path: Path) -> None:
    body = "def forward(self, x, factor, y):\n    return x * factor + y"
    one = _setting(tmp_path, body, "[torch.randn(4), 3.0, torch.randn(4)]")
    assert _roles(one.signature) == {"input0": "input", "input1": "input"}
    x, y = values = one.drawer.draw("nominal", counter=1, weights=1)
    torch.testing.assert_close(one.eager(values)[0], x * 3.0 + y)


def test_a_signature_survives_json() -> None:
    signature = builtin("layernorm", rows=4, cols=8).signature
    assert Signature.from_json(json.loads(json.dumps(asdict(signature)))) == signature


@pytest.mark.parametrize("name", builtin_names())
def test_built_ins_read_alike_with_and_without_memory(name: str) -> None:
    reference = builtin(name, **_small(name)).reference
    shape = _small(name)
    with torch.device("meta"):
        on_meta = read_signature(reference, shape)
    assert on_meta == read_signature(reference, shape)
    assert not on_meta.random


def _small(name: str) -> dict[str, int]:
    shape = load_reference(reference_spec(find_task(name))).default_shape
    return {key: min(size, 5 + at) for at, (key, size) in enumerate(shape.items())}


def test_bytes_rewritten_in_a_slot_are_seen_by_the_next_call() -> None:
    norm = builtin("layernorm", rows=4, cols=8)
    values = norm.drawer.draw("nominal", counter=1, weights=1)
    model = norm.reference.build(norm.shape, seed=0)
    call = bind(model, norm.reference, norm.shape, signature=norm.signature, tensors=values)
    with torch.no_grad():
        first = call()[0].clone()
        for value, fresh in zip(
            values, norm.drawer.draw("nominal", counter=2, weights=2), strict=True
        ):
            value.copy_(fresh)
        second = call()[0]
    assert not torch.equal(first, second)
    torch.testing.assert_close(second, torch.nn.functional.layer_norm(values[0], (8,), *values[1:]))


def test_state_is_reset_before_each_call_and_the_slot_is_left_alone(tmp_path: Path) -> None:
    one = _setting(tmp_path, BATCH_NORM)
    values = one.drawer.draw("nominal", counter=1, weights=1)
    kept = [value.clone() for value in values]
    model = one.reference.build({}, seed=0)
    call = bind(model, one.reference, {}, signature=one.signature, tensors=values)
    with torch.no_grad():
        first, second = call(), call()
    assert all(map(torch.equal, first, second))
    assert all(map(torch.equal, values, kept))
    mean = 0.9 * values[3] + 0.1 * values[0].mean(0)
    torch.testing.assert_close(first[1], mean)
    assert int(first[3]) == 1


def test_a_module_of_other_parameters_is_refused(tmp_path: Path) -> None:
    norm = builtin("layernorm", rows=4, cols=8)
    values = norm.drawer.draw("nominal", counter=1, weights=1)
    for model, expected in (
        (torch.nn.Linear(8, 3), "weight is torch.float32"),
        (torch.nn.Identity(), "0 tensors, the reference 2"),
    ):
        with pytest.raises(BindingError, match=expected):
            bind(model, norm.reference, norm.shape, signature=norm.signature, tensors=values)


def test_state_that_changes_shape_is_refused(tmp_path: Path) -> None:
    body = REMEMBERS.replace("return", "self.hidden = torch.cat([self.hidden, x])\n    return")
    with pytest.raises(TaskUnusable, match="changes the shape of hidden"):
        _setting(tmp_path, body)
