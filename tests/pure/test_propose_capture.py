"""From a reference to the IR and back to data: what is printed computes what the module does."""

import pytest
import torch

from kernelwright.backends.graph_program import build_module, parse
from kernelwright.core import Task
from kernelwright.propose import PROPOSERS, CannedProposer, Problem
from kernelwright.propose.search.capture import CaptureFailed, capture
from kernelwright.propose.search.ir import Builder, Graph, rebuild
from kernelwright.propose.search.program import to_candidate
from kernelwright.propose.search.proposer import another_shape
from kernelwright.tasks.catalog import builtin_names, find_task, reference_spec
from kernelwright.tasks.reference import ReferenceSpec, load_reference
from kernelwright.tasks.slots import module_tensors, read_signature

HEAD = """
import math
import torch
from torch import nn
"""


@pytest.fixture
def load(tmp_path):
    def from_text(text):
        path = tmp_path / f"task{len(list(tmp_path.iterdir()))}.py"
        path.write_text(HEAD + text)
        return load_reference(ReferenceSpec("file", str(path)))

    return from_text


def captured(reference, shape=None):
    shape = reference.default_shape if shape is None else shape
    signature = read_signature(reference, shape)
    other = another_shape(reference.domain, shape)
    return capture(reference, shape, signature, other_shape=other)


def agree(reference, graph, shape, seed=3):
    """The printed graph and the module, in fp64, on the same slots."""
    model = reference.build(shape, seed=seed).double()
    inputs = [
        value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value
        for value in reference.make_inputs(shape, seed=seed)
    ]
    slots = [value for value in inputs if isinstance(value, torch.Tensor)]
    slots += [tensor.detach().clone() for _, _, tensor in module_tensors(model)]
    with torch.no_grad():
        run = build_module(parse(to_candidate(graph, "").sources[0].text, len(slots)))
        got = run(*slots)
        expected = model(*inputs)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    expected += [buffer for buffer in model.buffers() if len(got) > len(expected)]
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-7, atol=1e-9)


SMALL = {
    "rows": 5, "cols": 9, "batch": 3, "middle": 6, "features": 8, "hidden": 7,
    "heads": 2, "length": 11, "width": 6, "height": 7, "channels": 3, "classes": 5, "pooled": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({*builtin_names()} - {"transformer_block"}))
def test_a_built_in_survives_capture_and_print_at_other_shapes(name):
    reference = load_reference(reference_spec(find_task(name)))
    shape = {key: SMALL[key] for key in reference.default_shape}
    graph, builder = captured(reference, {key: size + 5 for key, size in shape.items()})
    agree(reference, graph, shape)
    agree(reference, rebuild(graph, builder, lambda node: node), shape)


def test_sizes_that_are_products_of_others_are_refused():
    reference = load_reference(reference_spec(find_task("transformer_block")))
    with pytest.raises(CaptureFailed, match="depends on the shape"):
        captured(reference, reference.default_shape)


SIZES = """
DOMAIN = {"rows": (1, 512), "cols": (1, 512)}
class Model(nn.Module):
    def forward(self, x, y):
        r, c = x.shape
        z = x.reshape(r, 1, c) * c ** -0.5 + y.expand(r, c).view(r, 1, c) / c
        return z.sum(dim=(0, 1)) / math.sqrt(r), torch.zeros(r, c) + x
def get_inputs(rows=64, cols=64): return [torch.randn(rows, cols), torch.randn(1, cols)]
def get_init_inputs(): return []
"""


def test_constants_that_follow_a_size_hold_at_other_shapes(load):
    reference = load(SIZES)
    graph, _ = captured(reference)
    for rows, cols in [(64, 64), (3, 100), (17, 1)]:
        agree(reference, graph, {"rows": rows, "cols": cols})


PRODUCT = SIZES.replace("x.reshape(r, 1, c)", "x.reshape(r * c).view(r, 1, c)")


def test_a_size_that_is_not_understood_is_named(load):
    with pytest.raises(CaptureFailed, match="4096 depends on the shape"):
        captured(load(PRODUCT))


STATE = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
    def forward(self, x): return torch.relu(self.norm(x))
def get_inputs(): return [torch.randn(4, 3, 5, 5)]
def get_init_inputs(): return []
"""


def test_written_buffers_come_after_the_outputs(load):
    reference = load(STATE)
    graph, _ = captured(reference)
    assert len(graph.outputs) == 4
    agree(reference, graph, {})


def test_constant_slots_keep_their_values(load):
    text = STATE.replace("nn.BatchNorm2d(3)", "nn.Identity(); self.table = torch.arange(5)")
    graph, _ = captured(load(text.replace("self.norm(x)", "x * self.table")))
    assert torch.equal(graph.constants[1], torch.arange(5))


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("x if x.sum() > 0 else -x", "data-dependent"),
        ("torch.nn.functional.dropout(x, 0.5, True)", "random"),
        ("x + torch.linalg.det(x)[..., None, None]", "aten"),
    ],
)
def test_what_cannot_be_captured_is_named_and_ends_the_search(load, body, says):
    reference = load(STATE.replace("nn.BatchNorm2d(3)", "nn.Identity()").replace(
        "torch.relu(self.norm(x))", body
    ))  # fmt: skip
    with pytest.raises(CaptureFailed, match=f"(?i){says}"):
        captured(reference)
    assert list(PROPOSERS["search"]().propose(problem_of(reference), [])) == []


def problem_of(reference):
    task = Task.model_validate(
        {"name": "t", "origin": {"kind": "file", "path": "t.py"}, "source_hash": ""}
    )
    shape = reference.default_shape
    return Problem(task, reference, shape, read_signature(reference, shape))


def test_equal_calls_are_one_node_and_unlike_constants_are_not():
    builder = Builder()
    x = builder.slot(0, torch.empty(3, 4, device="meta"))
    assert builder.call("aten.add.Tensor", x, 1) is builder.call("aten.add.Tensor", x, 1)
    assert builder.call("aten.add.Tensor", x, 1) is not builder.call("aten.add.Tensor", x, 1.0)
    assert builder.call("aten.add.Tensor", x, 1) is not builder.call("aten.add.Tensor", x, True)


def test_what_no_output_needs_is_not_printed():
    builder = Builder()
    x = builder.slot(0, torch.empty(3, 4, device="meta"))
    builder.call("aten.exp.default", x)
    graph = Graph((x,), (builder.call("aten.neg.default", x),))
    program = parse(to_candidate(graph, "").sources[0].text)
    assert [str(call.target) for call in program.calls] == ["aten.neg.default"]


def test_the_second_shape_differs_in_every_size_and_has_no_two_alike():
    domain = {"a": (1, 100), "b": (1, 100), "c": (37, 41), "d": (2, 2)}
    other = another_shape(domain, {"a": 37, "b": 64, "c": 41, "d": 2})
    assert other is not None
    assert all(domain[name][0] <= size <= domain[name][1] for name, size in other.items())
    assert len(set(other.values())) == 4
    assert (other["a"], other["b"]) != (37, 64)
    assert other["c"] != 41
    assert another_shape({}, {}) is None


def test_a_canned_proposer_yields_what_it_was_given(load):
    graph, _ = captured(load(STATE))
    first, second = to_candidate(graph, "one"), to_candidate(graph, "two")
    proposer = CannedProposer([first, second])
    assert [c.idea for c in proposer.propose(problem_of(load(STATE)), [])] == ["one", "two"]
