"""The parser of graph programs: what it runs, and that it refuses everything else in one line."""

import json

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernelwright.backends.graph_ops import ALLOWED
from kernelwright.backends.graph_program import ProgramError, build_module, dump, parse

SUM = {"op": "aten.sum.dim_IntList", "args": [{"ref": 0}, [1], True]}


def program(*nodes, slots=1, outputs=None):
    return dump(slots, list(nodes), outputs or [{"ref": slots + len(nodes) - 1}])


def test_a_program_computes_what_its_calls_compute():
    text = program(SUM, {"op": "aten.div.Tensor", "args": [{"ref": 0}, {"ref": 1}]})
    x = torch.rand(5, 7)
    (result,) = build_module(parse(text, 1))(x)
    assert torch.equal(result, x / x.sum(1, keepdim=True))


def test_sizes_follow_the_slots_at_every_shape():
    scale = {"size": [0, 1], "power": -0.5}
    text = program({"op": "aten.mul.Tensor", "args": [{"ref": 0}, scale]})
    run = build_module(parse(text, 1))
    for width in (3, 16, 101):
        x = torch.rand(2, width)
        assert torch.allclose(run(x)[0], x / width**0.5)


def test_one_result_of_several_can_be_picked():
    split = {"op": "aten.max.dim", "args": [{"ref": 0}, 1]}
    text = program(split, outputs=[{"ref": 1, "item": 1}, {"ref": 1, "item": 0}])
    x = torch.rand(4, 9)
    index, value = build_module(parse(text))(x)
    assert torch.equal(index, x.argmax(1))
    assert torch.equal(value, x.amax(1))


def test_constants_that_json_lacks_survive():
    fill = {"op": "aten.full_like.default", "args": [{"ref": 0}, {"float": "-inf"}]}
    cast = {"op": "aten._to_copy.default", "args": [{"ref": 1}], "kwargs": {"dtype": F64}}
    (result,) = build_module(parse(program(fill, cast)))(torch.zeros(3))
    assert torch.equal(result, torch.full((3,), -torch.inf, dtype=torch.float64))


F64 = {"dtype": "float64"}


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"op": "aten.add_.Tensor", "args": [{"ref": 0}, 1]}, "no allowed operator"),
        ({"op": "aten.from_file.default", "args": []}, "no allowed operator"),
        ({"op": "aten.rand_like.default", "args": [{"ref": 0}]}, "no allowed operator"),
        ({"op": "os.system.default", "args": []}, "no allowed operator"),
        ({"op": "aten.relu.__init__", "args": [{"ref": 0}]}, "no overload"),
        ({"op": "aten.relu", "args": [{"ref": 0}]}, "no allowed operator"),
        ({"op": 7}, "no allowed operator"),
        ({"op": "aten.abs.out", "args": [{"ref": 0}], "kwargs": {"out": {"ref": 0}}}, "writes"),
        ({"op": "aten.mul.left_t", "args": [[0], 1 << 30]}, "returns no tensor"),
        ({"op": "aten.relu.default", "args": [{"ref": 1}]}, "malformed"),
        ({"op": "aten.relu.default", "args": [{"ref": -1}]}, "malformed"),
        ({"op": "aten.relu.default", "args": [{"ref": True}]}, "malformed"),
        ({"op": "aten.relu.default", "args": [{"ref": 0, "eval": "1"}]}, "malformed"),
        ({"op": "aten.relu.default", "args": [{"ref": 0}, 1]}, "takes (self)"),
        ({"op": "aten.relu.default", "args": [{"ref": 0}], "kwargs": {"self": 1}}, "takes (self)"),
        ({"op": "aten.relu.default", "args": [{"dtype": "complex64"}]}, "malformed"),
        (
            {"op": "aten.mul.Tensor", "args": [{"ref": 0}, {"size": [0, 1], "power": 3}]},
            "malformed",
        ),
        ({"op": "aten.mul.Tensor", "args": [{"ref": 0}, {"size": [1, 1]}]}, "malformed"),
        ({"op": "aten.relu.default", "args": ["__import__('os')"]}, "string"),
        ({"op": "aten.relu.default", "args": [[[[[[[[{"ref": 0}]]]]]]]]}, "too deeply"),
        ({"op": "aten.relu.default", "args": {"self": 0}}, "no list"),
        ({"op": "aten.relu.default", "args": [{"ref": 0}], "code": ""}, "no object"),
    ],
)
def test_what_is_outside_the_format_is_refused_in_one_line(node, says):
    with pytest.raises(ProgramError) as refused:
        parse(program(node))
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_dropout_and_training_statistics_are_refused():
    qkv = [{"ref": 0}] * 3
    attention = "aten.scaled_dot_product_attention.default"
    parse(program({"op": attention, "args": [*qkv, None, 0.0, True]}))
    with pytest.raises(ProgramError, match="random"):
        parse(program({"op": attention, "args": [*qkv, None, 0.5]}))
    norm = [*qkv, {"ref": 0}, {"ref": 0}]
    parse(program({"op": "aten.batch_norm.default", "args": [*norm, False, 0.1, 1e-5, False]}))
    for trains in (True, 1, {"ref": 0}):
        with pytest.raises(ProgramError, match="writes its statistics"):
            parse(program({"op": "aten.batch_norm.default", "args": [*norm, trains, 0.1, 1e-5, 0]}))


def test_the_slots_must_be_those_of_the_task():
    with pytest.raises(ProgramError, match="1 slots, the task has 2"):
        parse(program(SUM), 2)
    with pytest.raises(ProgramError, match="4000"):
        parse(program(*[SUM] * 4001))


def test_no_allowed_operator_writes_or_draws():
    for name in ALLOWED:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            arguments = getattr(packet, overload)._schema.arguments
            assert not any("Generator" in str(argument.type) for argument in arguments), name


KEYS = st.sampled_from(["slots", "nodes", "outputs", "op", "args", "kwargs", "ref", "item", "size"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)
OPS = st.sampled_from(sorted(ALLOWED)) | st.text(max_size=6)
NODE = st.fixed_dictionaries(
    {"op": st.builds("aten.{}.{}".format, OPS, st.sampled_from(["default", "Tensor", "out", ""]))},
    optional={"args": st.lists(JSON, max_size=4), "kwargs": JSON},
)
PROGRAM = st.fixed_dictionaries(
    {"slots": st.integers(-1, 3), "nodes": st.lists(NODE, max_size=3), "outputs": JSON}
)


@settings(max_examples=300, deadline=None)
@example("[" * 100_000)
@example("9" * 10_000)
@given(st.text(max_size=60) | (JSON | PROGRAM).map(json.dumps))
def test_garbage_raises_program_error_and_nothing_else(text):
    refusal = ""
    try:
        parsed = parse(text)
        assert len(parsed.outputs) >= 1
    except ProgramError as refused:
        refusal = str(refused)
    assert "\n" not in refusal
