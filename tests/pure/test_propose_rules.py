"""Each rule holds in fp64 where it fires, and its side condition is needed where it does not."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.backends.graph_program import build_module, parse
from kernelwright.propose.search.facts import constant_of, range_of
from kernelwright.propose.search.ir import Builder, Graph
from kernelwright.propose.search.program import to_candidate
from kernelwright.propose.search.rules import RULES, rewrite

SIZE = st.integers(1, 7)
FACTOR = st.floats(-8, 8).filter(lambda c: abs(c) > 1e-3)
check = settings(max_examples=40, deadline=None)


class Sheet:
    """A graph being written, with fp64 values for its slots."""

    def __init__(self, *shapes, seed=0, any_shape=True):
        generator = torch.Generator().manual_seed(seed)
        self.values = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
        self.builder = Builder()
        self.slots = [
            self.builder.slot(at, torch.empty(s, device="meta")) for at, s in enumerate(shapes)
        ]
        self.constants = {}
        self.any_shape = any_shape

    def __call__(self, op, *args, **kwargs):
        return self.builder.call(f"aten.{op}", *args, **kwargs)

    def graph(self, output):
        slots = tuple(self.slots)
        return Graph(slots, (output,), self.constants, any_shape=self.any_shape)

    def rewritten(self, output):
        return rewrite(self.graph(output), self.builder, RULES)

    def run(self, graph):
        program = parse(to_candidate(graph, "").sources[0].text, len(self.slots))
        return build_module(program)(*self.values)[0]

    def holds(self, output, *names):
        """The named rules, and no others, fire on the graph and keep its value."""
        graph, fired = self.rewritten(output)
        assert set(fired) == set(names)
        before, after = self.run(self.graph(output)), self.run(graph)
        assert torch.allclose(before, after, rtol=1e-9, atol=1e-9, equal_nan=True)
        return graph

    def untouched(self, output):
        graph, fired = self.rewritten(output)
        assert fired == []
        assert graph.outputs[0] is output


@check
@given(
    st.lists(SIZE, min_size=1, max_size=2), SIZE, SIZE, st.booleans(), st.booleans(), st.booleans()
)
def test_a_sum_over_output_features_becomes_a_column_sum(batch, k, j, mean, keep, biased):
    sheet = Sheet((*batch, k), (j, k), (j,))
    x, weight, bias = sheet.slots
    product = sheet("linear.default", x, weight, bias if biased else None)
    op = "mean.dim" if mean else "sum.dim_IntList"
    graph = sheet.holds(sheet(op, product, (-1,), keep), "reduce-linear")
    assert product not in graph.nodes()


@check
@given(SIZE, SIZE, SIZE, FACTOR)
def test_a_scaled_matmul_is_summed_before_it_is_scaled(m, k, j, factor):
    sheet = Sheet((m, k), (k, j))
    scaled = sheet("div.Tensor", sheet("matmul.default", *sheet.slots), factor)
    sheet.holds(sheet("sum.dim_IntList", scaled, (1,), True), "pull-out-factor", "reduce-linear")


def test_a_sum_behind_a_nonlinear_map_or_over_the_batch_stays():
    sheet = Sheet((4, 3), (5, 3))
    x, weight = sheet.slots
    product = sheet("linear.default", x, weight)
    behind = sheet("sum.dim_IntList", sheet("relu.default", product), (1,))
    sheet.untouched(behind)
    sheet.untouched(sheet("sum.dim_IntList", product, (0,)))
    a, w = sheet.values
    assert not torch.allclose((a @ w.T).relu().sum(1), (a @ w.sum(0)).relu())


@pytest.mark.parametrize("factor", [math.inf, 0.0])
def test_a_factor_that_is_zero_or_infinite_stays_inside_the_sum(factor):
    sheet = Sheet((1, 2))
    scaled = sheet("mul.Tensor", sheet.slots[0], factor)
    sheet.untouched(sheet("sum.dim_IntList", scaled, (1,)))
    x = torch.tensor([1.5e308, 1.5e308] if factor == 0 else [2.0, -1.0], dtype=torch.float64)
    assert not torch.equal((x * factor).sum(), x.sum() * factor)


@check
@given(SIZE, SIZE, st.sampled_from(["sum.dim_IntList", "mean.dim", "amax.default"]), st.booleans())
def test_reductions_over_a_kept_dimension_vanish(m, n, op, keep):
    sheet = Sheet((m, n))
    total = sheet("sum.dim_IntList", sheet.slots[0], (1,), True)
    graph = sheet.holds(sheet(op, total, (1,), keep), "drop-size-one")
    assert sum(node.op != "slot" for node in graph.nodes()) == (1 if keep else 2)


def test_a_size_one_that_another_shape_may_change_keeps_its_reduction():
    sheet = Sheet((4, 1))
    sheet.untouched(sheet("sum.dim_IntList", sheet.slots[0], (1,), True))
    fixed = Sheet((4, 1), any_shape=False)
    fixed.holds(fixed("sum.dim_IntList", fixed.slots[0], (1,), True), "drop-size-one")


MAPS = [
    ("relu.default",),
    ("tanh.default",),
    ("sigmoid.default",),
    ("exp.default",),
    ("clamp.default", -0.5, 0.5),
    ("clamp.default", None, 0.5),
    ("hardtanh.default",),
    ("mul.Tensor", 2.5),
    ("add.Tensor", -1.0),
]


@check
@given(SIZE, SIZE, st.sampled_from(MAPS), st.sampled_from(["amax", "amin"]), st.booleans())
def test_increasing_maps_move_behind_a_maximum(m, n, mapping, reduction, with_nan):
    sheet = Sheet((m, n))
    if with_nan:
        sheet.values[0][0, 0] = math.nan
    inner = sheet(mapping[0], sheet.slots[0], *mapping[1:])
    graph = sheet.holds(sheet(f"{reduction}.default", inner, (1,), True), "commute-monotone")
    assert graph.outputs[0].op == f"aten.{mapping[0]}"


def test_increasing_maps_move_behind_a_pooling_with_padding():
    sheet = Sheet((2, 3, 9, 9))
    inner = sheet("tanh.default", sheet.slots[0])
    sheet.holds(sheet("max_pool2d.default", inner, (3, 3), (2, 2), (1, 1)), "commute-monotone")


@pytest.mark.parametrize(
    "mapping", [("gelu.default",), ("mul.Tensor", -1.0), ("square.default",), ("log.default",)]
)
def test_maps_that_fall_somewhere_stay_inside_the_maximum(mapping):
    sheet = Sheet((1, 3))
    sheet.values[0] = torch.tensor([[-3.0, -0.7, 0.1]], dtype=torch.float64)
    inner = sheet(mapping[0], sheet.slots[0], *mapping[1:])
    low = sheet("amin.default", inner, (1,))
    sheet.untouched(low)
    swapped = sheet(mapping[0], sheet("amin.default", sheet.slots[0], (1,)), *mapping[1:])
    high = sheet("amax.default", inner, (1,))
    swapped_high = sheet(mapping[0], sheet("amax.default", sheet.slots[0], (1,)), *mapping[1:])
    pairs = [(low, swapped), (high, swapped_high)]
    assert any(
        not torch.equal(sheet.run(sheet.graph(a)), sheet.run(sheet.graph(b))) for a, b in pairs
    )


def test_a_logarithm_of_what_is_proven_positive_moves():
    sheet = Sheet((3, 5))
    inner = sheet("log.default", sheet("exp.default", sheet.slots[0]))
    sheet.holds(sheet("amax.default", inner, (1,)), "commute-monotone")


@check
@given(SIZE, st.integers(2, 7), FACTOR, st.sampled_from(["add.Tensor", "sub.Tensor"]))
def test_a_number_added_before_a_softmax_or_a_norm_is_dropped(m, n, number, op):
    sheet = Sheet((m, n), (n,))
    x, weight = sheet.slots
    shifted = sheet(op, x, number)
    for output in (
        sheet("softmax.int", shifted, -1),
        sheet("log_softmax.int", shifted, 0),
        sheet("layer_norm.default", shifted, (n,), weight, None, 1e-5),
    ):
        sheet.holds(output, "drop-shift")


def test_a_shift_that_varies_or_is_infinite_stays():
    sheet = Sheet((2, 5), (5,))
    x, c = sheet.slots
    sheet.untouched(sheet("softmax.int", sheet("add.Tensor", x, c), -1))
    sheet.untouched(sheet("softmax.int", sheet("add.Tensor", x, math.inf), -1))
    a, b = sheet.values
    assert not torch.allclose((a + b).softmax(-1), a.softmax(-1))
    assert not torch.allclose((a + math.inf).softmax(-1), a.softmax(-1))


CHAINS = [
    ("relu.default", ("relu.default",)),
    ("relu.default", ("leaky_relu.default", 0.1)),
    ("sigmoid.default", ("clamp.default", 0.0, 1.0)),
    ("sigmoid.default", ("abs.default",)),
    ("tanh.default", ("hardtanh.default",)),
    ("exp.default", ("clamp_min.default", 0.0)),
]


@check
@given(SIZE, st.sampled_from(CHAINS))
def test_what_changes_nothing_is_dropped(n, chain):
    first, (second, *rest) = chain
    sheet = Sheet((n,))
    sheet.values[0][0] = math.nan
    sheet.holds(sheet(second, sheet(first, sheet.slots[0]), *rest), "drop-no-op")


def test_a_hardtanh_after_the_gelu_of_a_tanh_is_dropped():
    sheet = Sheet((50,))
    inner = sheet("gelu.default", sheet("tanh.default", sheet.slots[0]))
    sheet.holds(sheet("hardtanh.default", inner), "drop-no-op")


@pytest.mark.parametrize(
    "chain",
    [
        ("sigmoid.default", ("clamp.default", 0.4, 1.0)),
        ("tanh.default", ("relu.default",)),
        ("gelu.default", ("hardtanh.default",)),
        ("hardtanh.default", ("clamp.default", -2.0, 0.5)),
    ],
)
def test_a_clamp_that_bites_stays(chain):
    first, (second, *rest) = chain
    sheet = Sheet((200,))
    inner = sheet(first, sheet.slots[0])
    output = sheet(second, inner, *rest)
    sheet.untouched(output)
    assert not torch.equal(sheet.run(sheet.graph(output)), sheet.run(sheet.graph(inner)))


def test_crossed_bounds_give_the_upper_one():
    sheet = Sheet((4,))
    crossed = sheet("clamp.default", sheet.slots[0], 5.0, 1.0)
    assert range_of(crossed) == (1.0, 1.0)
    sheet.untouched(sheet("clamp.default", crossed, 2.0, 6.0))


UNARY = st.lists(
    st.sampled_from(
        [
            *MAPS,
            ("gelu.default",),
            ("abs.default",),
            ("softmax.int", 0),
            ("clamp.default", 2.0, 1.0),
        ]
    ),
    min_size=1,
    max_size=4,
)


@check
@given(UNARY, st.integers(0, 1000))
def test_ranges_hold_every_value(chain, seed):
    sheet = Sheet((64,), seed=seed)
    sheet.values[0] *= 4
    node = sheet.slots[0]
    for op, *rest in chain:
        node = sheet(op, node, *rest)
    low, high = range_of(node)
    values = sheet.run(sheet.graph(node))
    assert bool(((values >= low) & (values <= high) | values.isnan()).all())


def attention(sheet, mask, form, scale):
    q, k, v = sheet.slots[:3]
    scores = sheet("matmul.default", q, sheet("transpose.int", k, -2, -1))
    scores = sheet("mul.Tensor", scores, scale)
    if form == "masked_fill":
        dropped = sheet("eq.Scalar", mask, 0)
        scores = sheet("masked_fill.Scalar", scores, dropped, -math.inf)
    elif form == "where":
        scores = sheet("where.ScalarOther", sheet("ne.Scalar", mask, 0), scores, -math.inf)
    return sheet("matmul.default", sheet("softmax.int", scores, -1), v)


@check
@given(
    SIZE,
    st.integers(2, 7),
    SIZE,
    st.sampled_from(["masked_fill", "where", "none"]),
    FACTOR.map(abs),
)
def test_written_out_attention_becomes_the_fused_operator(heads, length, width, form, scale):
    qkv = [(1, heads, length, width)] * 3
    sheet = Sheet(*qkv, (length, length))
    sheet.constants[3] = sheet.values[3] = torch.ones(length, length).tril()
    output = attention(sheet, sheet.slots[3], form, scale)
    graph = sheet.holds(output, "fuse-attention")
    fused = graph.outputs[0]
    assert fused.op == "aten.scaled_dot_product_attention.default"
    assert dict(fused.kwargs).get("is_causal", False) is (form != "none")


def test_a_mask_that_is_not_proven_causal_keeps_the_written_form():
    length = 6
    sheet = Sheet(*[(1, 2, length, 3)] * 3, (length, length))
    sheet.values[3] = torch.ones(length, length).tril()
    output = attention(sheet, sheet.slots[3], "masked_fill", 0.5)
    sheet.untouched(output)  # an input may hold another mask in the next call
    almost = torch.ones(length, length).tril()
    almost[0, 4] = 1
    sheet.constants[3] = sheet.values[3] = almost
    sheet.untouched(output)
    q, k, v, _ = sheet.values
    causal = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5)
    assert not torch.allclose(sheet.run(sheet.graph(output)), causal)


def test_a_negative_factor_keeps_the_written_form():
    sheet = Sheet(*[(1, 2, 4, 3)] * 3, (4, 4))
    sheet.constants[3] = sheet.values[3] = torch.ones(4, 4).tril()
    output = attention(sheet, sheet.slots[3], "masked_fill", -0.5)
    sheet.untouched(output)
    q, k, v, _ = sheet.values
    causal = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=-0.5)
    assert not torch.allclose(sheet.run(sheet.graph(output)), causal)


def test_a_mask_built_in_forward_is_a_constant():
    sheet = Sheet((3,))
    mask = sheet("tril.default", sheet("ones.default", (4, 4)))
    assert torch.equal(constant_of(mask, sheet.graph(mask)), torch.ones(4, 4).tril())
    mixed = sheet("mul.Tensor", mask, sheet("amax.default", sheet.slots[0], (0,)))
    assert constant_of(mixed, sheet.graph(mixed)) is None


def test_rules_cascade_to_a_matrix_vector_product():
    sheet = Sheet((4, 6), (5, 6), (5,))
    y = sheet("sum.dim_IntList", sheet("linear.default", *sheet.slots), (1,), True)
    y = sheet("amax.default", y, (1,), True)
    y = sheet("logsumexp.default", sheet("mean.dim", y, (1,), True), (1,), True)
    graph = sheet.holds(y, "reduce-linear", "drop-size-one")
    assert graph.outputs[0].name == "linear"
