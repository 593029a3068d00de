"""Emitted C++ against fp64: odd shapes, special values, every knob, no stray write."""

import ctypes
import math

import pytest
import torch

from kernelwright.backends import CppBackend, NativeArtefact
from kernelwright.propose.search.ir import Builder, Graph
from kernelwright.propose.search.rules import RULES, rewrite
from kernelwright.propose.search.templates.emit import RowChoice, emit
from kernelwright.propose.search.templates.middle import (
    NotAMiddleReduction,
    emit_middle,
    match_middle,
)
from kernelwright.propose.search.templates.rowprogram import NotARowProgram, lower

PLAIN = RowChoice(stream=False, unroll=1)
CHOICES = [PLAIN, RowChoice(stream=True, unroll=4, prefetch=True), RowChoice(True, 2)]
SHAPES = [(1, 1), (3, 2), (5, 15), (4, 16), (7, 17), (2, 31), (3, 101), (61, 1021), (130, 256)]
CODES = {torch.float32: 0, torch.int64: 4, torch.uint8: 8, torch.bool: 9}
GUARD = 64


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
    ]


def described(tensors):
    array = (Tensor * len(tensors))()
    for entry, tensor in zip(array, tensors, strict=True):
        entry.data, entry.dtype, entry.ndim = tensor.data_ptr(), CODES[tensor.dtype], tensor.dim()
        entry.sizes[: tensor.dim()] = tensor.shape
        entry.strides[: tensor.dim()] = tensor.stride()
    return array


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("templates")


@pytest.fixture
def native(cache):
    """Builds a Candidate and returns a call that checks the guard around its output."""

    def build(candidate):
        built = CppBackend().build(candidate, cache)
        assert isinstance(built, NativeArtefact), built
        kernel = ctypes.CDLL(str(built.library)).kernel
        kernel.restype = None

        def call(inputs, shape, dtype=torch.float32):
            count = math.prod(shape)
            whole = torch.full((count + 2 * GUARD,), 77, dtype=dtype)
            copies = [tensor.clone() for tensor in inputs]
            output = whole[GUARD : GUARD + count].view(shape)
            kernel(described(inputs), len(inputs), described([output]), 1)
            for given, copy in zip(inputs, copies, strict=True):
                assert torch.equal(given.nan_to_num(7), copy.nan_to_num(7))
            assert bool((whole[:GUARD] == 77).all() & (whole[GUARD + count :] == 77).all())
            return output

        return call

    return build


class Sheet:
    """A graph over slots of the given shapes and dtypes."""

    def __init__(self, *slots):
        self.builder = Builder()
        self.slots = tuple(
            self.builder.slot(at, torch.empty(shape, dtype=dtype, device="meta"))
            for at, (shape, dtype) in enumerate(slots)
        )

    def __call__(self, op, *args, **kwargs):
        return self.builder.call(f"aten.{op}", *args, **kwargs)

    def program(self, output):
        return lower(Graph(self.slots, (output,)))


F32, BOOL = torch.float32, torch.bool


def captured_at(shape, write):
    sheet = Sheet((shape, F32), (shape[-1:], F32), (shape[-1:], F32), (shape, BOOL))
    return sheet.program(write(sheet, *sheet.slots))


def softmax(sheet, x, w, b, m):
    return sheet("softmax.int", x, -1)


def log_softmax(sheet, x, w, b, m):
    return sheet("log_softmax.int", x, -1)


def layer_norm(sheet, x, w, b, m):
    return sheet("layer_norm.default", x, x.shape[-1:], w, b, 1e-5)


def rms_norm(sheet, x, w, b, m):
    return sheet("rms_norm.default", x, x.shape[-1:], w, 1e-6)


def masked_scan(sheet, x, w, b, m):
    return sheet("cumsum.default", sheet("mul.Tensor", x, m), -1)


def scan_of_exp(sheet, x, w, b, m):
    total = sheet("cumsum.default", sheet("exp.default", x), -1)
    return sheet("div.Tensor", total, sheet("amax.default", total, (-1,), True))


def l1_norm(sheet, x, w, b, m):
    return sheet("div.Tensor", x, sheet("mean.dim", sheet("abs.default", x), (1,), True))


def logsumexp(sheet, x, w, b, m):
    return sheet("logsumexp.default", sheet("mul.Tensor", x, 0.5), (1,))


def spread(sheet, x, w, b, m):
    low, high = (sheet(f"{op}.default", x, (-1,), True) for op in ("amin", "amax"))
    return sheet("sub.Tensor", high, low)


def where(sheet, x, w, b, m):
    kept = sheet("logical_and.default", m, sheet("gt.Scalar", x, -0.5))
    return sheet("where.self", kept, sheet("add.Tensor", x, w), sheet("mul.Tensor", x, b))


ROWS = {
    softmax: lambda x, w, b, m: x.softmax(-1),
    log_softmax: lambda x, w, b, m: x.log_softmax(-1),
    layer_norm: lambda x, w, b, m: torch.layer_norm(x, x.shape[-1:], w, b, 1e-5),
    rms_norm: lambda x, w, b, m: torch.rms_norm(x, x.shape[-1:], w, 1e-6),
    masked_scan: lambda x, w, b, m: (x * m).cumsum(-1),
    scan_of_exp: lambda x, w, b, m: x.exp().cumsum(-1) / x.exp().cumsum(-1).amax(-1, True),
    l1_norm: lambda x, w, b, m: x / x.abs().mean(1, True),
    logsumexp: lambda x, w, b, m: (x * 0.5).logsumexp(1),
    spread: lambda x, w, b, m: x.amax(-1, True) - x.amin(-1, True),
    where: lambda x, w, b, m: torch.where(m & (x > -0.5), x + w, x * b),
}


def drawn(shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator)
    w, b = (torch.randn(shape[-1], generator=generator) for _ in range(2))
    return [x, w, b, torch.rand(shape, generator=generator) < 0.5]


def truth(name, inputs):
    return ROWS[name](*(t.double() if t.is_floating_point() else t for t in inputs))


def rms(values):
    return float(values.double().pow(2).mean().sqrt())


@pytest.mark.parametrize("choice", CHOICES, ids=str)
@pytest.mark.parametrize("name", ROWS, ids=lambda f: f.__name__)
def test_a_row_program_is_right_at_shapes_it_was_not_captured_at(native, name, choice):
    call = native(emit(captured_at((8, 64), name), choice, ""))
    for seed, shape in enumerate(SHAPES):
        inputs = drawn(shape, seed)
        exact = truth(name, inputs)
        error = rms(call(inputs, exact.shape) - exact)
        eager = rms(ROWS[name](*inputs) - exact)
        assert error <= 4 * eager + 2e-7 * max(rms(exact), 1e-3), shape


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ROWS, ids=lambda f: f.__name__)
def test_special_values_come_out_as_in_eager(native, name, value):
    call = native(emit(captured_at((8, 64), name), CHOICES[1], ""))
    inputs = drawn((5, 83), 1)
    inputs[0][1, 3] = value
    inputs[0][2, 82] = value
    inputs[0][3, :] = value
    expected = ROWS[name](*inputs)
    got = call(inputs, expected.shape)
    assert torch.allclose(got, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_a_row_may_be_several_dimensions(native):
    shape = (6, 5, 7)
    sheet = Sheet((shape, F32), (shape[1:], F32))
    x, w = sheet.slots
    program = sheet.program(sheet("layer_norm.default", x, shape[1:], w, None, 1e-5))
    assert program.tail == 2
    a, b = torch.randn(9, 3, 11), torch.randn(3, 11)
    expected = torch.layer_norm(a, (3, 11), b, None, 1e-5)
    got = native(emit(program, PLAIN, ""))([a, b], a.shape)
    assert torch.allclose(got, expected, rtol=1e-5, atol=1e-5)


MAPS = {
    "exp.default": (),
    "expm1.default": (),
    "log.default": (),
    "log1p.default": (),
    "sigmoid.default": (),
    "log_sigmoid.default": (),
    "tanh.default": (),
    "erf.default": (),
    "rsqrt.default": (),
    "silu.default": (),
    "mish.default": (),
    "hardsigmoid.default": (),
    "hardswish.default": (),
    "relu6.default": (),
    "selu.default": (),
    "leaky_relu.default": (0.1,),
    "hardtanh.default": (-0.5, 2.0),
    "clamp.default": (-0.25,),
    "elu.default": (1.5,),
    "softplus.default": (2.0, 10.0),
    "gelu.default": (),
    "pow.Tensor_Scalar": (3,),
    "rsub.Scalar": (2.5,),
    "masked_fill.Scalar": (-math.inf,),
}


@pytest.fixture(scope="session")
def samples():
    """Magnitudes from the smallest to where float32 ends, dense around one, and what is special."""
    scale = 10.0 ** torch.arange(-38, 38.5, 0.25, dtype=torch.float64)
    dense = torch.linspace(-20, 20, 40_001, dtype=torch.float64)
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan], dtype=torch.float64)
    return torch.cat([scale, -scale, dense, special]).float().view(1, -1)


@pytest.mark.parametrize("op", MAPS)
def test_a_map_is_within_a_few_ulp_of_the_truth(native, samples, op):
    sheet = Sheet(((2, 32), F32), ((2, 32), BOOL))
    rest = (sheet.slots[1], *MAPS[op]) if op.startswith("masked") else MAPS[op]
    call = native(emit(sheet.program(sheet(op, sheet.slots[0], *rest)), PLAIN, ""))
    packet, overload = op.split(".")
    function = getattr(getattr(torch.ops.aten, packet), overload)
    mask = samples > 1
    extra = (mask, *MAPS[op]) if op.startswith("masked") else MAPS[op]
    exact = function(samples.double(), *extra)
    eager = function(samples, *extra)
    got = call([samples, mask], samples.shape)
    # Where eager itself leaves fp64's answer (its gelu of +inf is NaN), either is accepted.
    for same in (torch.isnan, torch.isinf):
        as_eager, as_exact = same(got) == same(eager), same(got) == same(exact.float())
        assert bool((as_eager | as_exact).all())
    finite = exact.float().isfinite() & got.isfinite()
    error = (got.double() - exact)[finite].abs()
    # Ulps of the result, or of the largest intermediate where the map itself cancels.
    unit = 2.0**-23 * torch.maximum(exact.abs(), 0.5 * samples.double().abs().clamp(max=0.5))
    assert float((error / unit[finite].clamp(min=2.0**-126)).max()) <= 6


def test_a_product_with_column_sums_is_computed_in_the_kernel(native):
    sheet = Sheet(((8, 32), F32), ((16, 32), F32), ((16,), F32))
    total = sheet("sum.dim_IntList", sheet("linear.default", *sheet.slots), (1,), True)
    graph, fired = rewrite(Graph(sheet.slots, (total,)), sheet.builder, RULES)
    assert fired == ["reduce-linear"]
    call = native(emit(lower(graph), CHOICES[1], ""))
    for m, k, j in [(1, 1, 1), (5, 17, 3), (33, 300, 129), (64, 1024, 700)]:
        x, w, b = torch.randn(m, k), torch.randn(j, k), torch.randn(j)
        exact = (x.double() @ w.double().T + b.double()).sum(1, True)
        got = call([x, w, b], (m, 1))
        eager = torch.nn.functional.linear(x, w, b).sum(1, True)
        assert rms(got - exact) <= 4 * rms(eager - exact) + 1e-6 * rms(exact)


def test_a_product_with_row_sums_is_computed_in_the_kernel(native):
    sheet = Sheet(((8, 32), F32), ((32, 16), F32))
    mean = sheet("mean.dim", sheet("matmul.default", *sheet.slots), (1,))
    graph, _ = rewrite(Graph(sheet.slots, (mean,)), sheet.builder, RULES)
    with pytest.raises(NotARowProgram):  # the squeeze is no row operation; with keepdim it is one
        lower(graph)
    kept = sheet("mean.dim", sheet("matmul.default", *sheet.slots), (1,), True)
    graph, _ = rewrite(Graph(sheet.slots, (kept,)), sheet.builder, RULES)
    x, w = torch.randn(9, 45), torch.randn(45, 21)
    got = native(emit(lower(graph), PLAIN, ""))([x, w], (9, 1))
    assert torch.allclose(got, (x.double() @ w.double()).mean(1, True).float(), atol=1e-5)


MIDDLES = {
    "argmax.default": torch.argmax,
    "argmin.default": torch.argmin,
    "amax.default": torch.amax,
    "amin.default": torch.amin,
    "sum.dim_IntList": torch.sum,
    "mean.dim": torch.mean,
}


def middle_of(op, shape=(2, 4, 32), dim=1):
    sheet = Sheet((shape, F32))
    axis = dim if op.startswith("arg") else (dim,)
    return match_middle(Graph(sheet.slots, (sheet(op, sheet.slots[0], axis),)))


@pytest.mark.parametrize("blocks", [1, 8])
@pytest.mark.parametrize("op", MIDDLES)
def test_a_middle_reduction_is_right_with_ties_and_nan(native, op, blocks):
    call = native(emit_middle(middle_of(op), blocks=blocks, idea=""))
    dtype = torch.int64 if op.startswith("arg") else F32
    for shape in [(1, 1, 1), (2, 3, 5), (3, 7, 16), (2, 33, 130), (5, 64, 1023)]:
        x = torch.randn(shape)
        ties = torch.randint(-2, 3, shape).float()
        broken = torch.where(torch.rand(shape) < 0.05, math.nan, x)
        for values in (x, ties, broken, torch.full(shape, -math.inf)):
            expected = MIDDLES[op](values, dim=1)
            got = call([values], expected.shape, dtype)
            assert torch.allclose(got, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_values_and_places_of_a_maximum_are_middle_reductions():
    sheet = Sheet(((2, 4, 32), F32))
    both = sheet("max.dim", sheet.slots[0], 1)
    for position, what in enumerate(("amax", "argmax")):
        output = sheet.builder.item(both, position)
        assert match_middle(Graph(sheet.slots, (output,))).what == what


def test_what_the_templates_cannot_express_is_refused():
    sheet = Sheet(((4, 8), F32), ((4, 8), torch.float64), ((8, 8), F32), ((4, 8), BOOL))
    x, wide, square, mask = sheet.slots
    for output in (
        sheet("sin.default", x),
        sheet("abs.default", wide),
        sheet("matmul.default", x, square),
        sheet("softmax.int", x, 0),
        sheet("add.Tensor", mask, mask),
        sheet("div.Tensor", x, sheet("sum.dim_IntList", square, (1,))),
    ):
        with pytest.raises(NotARowProgram):
            sheet.program(output)
    strided = Graph(sheet.slots, (sheet("exp.default", x),), strided=frozenset([0]))
    with pytest.raises(NotARowProgram, match="dense"):
        lower(strided)
    for output in (sheet("amax.default", x, (1,)), sheet("exp.default", x)):
        with pytest.raises(NotAMiddleReduction):
            match_middle(Graph(sheet.slots, (output,)))
