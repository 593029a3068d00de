"""A run's winner in a live model: eager, compiled, trained, copied."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn
from winners import load, won_run

from kernelwright.export import KernelNotUsed, NothingToPatch, export_file, patch

BLOCK = """
import torch
from torch import nn

DOMAIN = {"rows": (1, 64), "cols": (2, 64)}
POWER = 2

class Model(nn.Module):
    def __init__(self, cols, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.randn(cols))

    def forward(self, x, scale=1.0):
        return x * torch.rsqrt(x.pow(POWER).mean(-1, keepdim=True) + self.eps) * self.weight * scale

def get_inputs(rows=16, cols=32):
    return [torch.randn(rows, cols)]

def get_init_inputs(cols=32):
    return [cols]
"""
KERNEL = """
#include "kernelwright.h"
#include <cmath>
extern "C" void kernel(const kw_tensor* in, int n_in, const kw_tensor* out, int n_out) {
  const float *x = (const float*)in[0].data, *w = (const float*)in[1].data;
  float* y = (float*)out[0].data;
  const long rows = in[0].sizes[0], cols = in[0].sizes[1];
#pragma omp parallel for
  for (long r = 0; r < rows; r++) {
    float sum = 0;
    for (long c = 0; c < cols; c++) sum += x[r * cols + c] * x[r * cols + c];
    const float k = 1 / std::sqrt(sum / cols + 1e-6f);
    for (long c = 0; c < cols; c++) y[r * cols + c] = x[r * cols + c] * k * w[c];
  }
}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("patch")
    (folder / "task.py").write_text(BLOCK)
    return won_run(folder, KERNEL)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def norm(run, cache, monkeypatch):
    """The class as a user's own code imports it, from the same source."""
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    return load(run.path.parent / "task.py", "users_module").Model


class Net(nn.Module):
    def __init__(self, norm, cols=32, **options):
        super().__init__()
        self.first, self.second = norm(cols, **options), norm(cols, **options)
        self.middle = nn.Linear(cols, cols)

    def forward(self, x):
        return self.second(self.middle(self.first(x))) + 1


@pytest.fixture
def net(norm):
    return Net(norm).eval()


def test_every_block_runs_the_kernel_and_every_call_is_counted(run, net):
    x, keys, blocks = torch.randn(16, 32), list(net.state_dict()), [net.first, net.second]
    weights = [p.data_ptr() for p in net.parameters()]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        wanted = net(x)
        live = patch(net, run)
        for _ in range(3):
            torch.testing.assert_close(net(x), wanted)
    assert live.modules == 2
    assert (live.calls, live.fallbacks) == (6, 0)
    assert list(net.state_dict()) == keys
    assert [p.data_ptr() for p in net.parameters()] == weights
    assert [net.first, net.second] == blocks
    live.undo()
    with torch.no_grad():
        assert torch.equal(net(x), wanted)
    assert live.calls == 6


def test_the_kernel_reads_the_parameters_that_the_model_has_now(run, net):
    x = torch.randn(16, 32)
    live = patch(net, run)
    with torch.no_grad():
        net(x)
        net.first.weight.mul_(3)
        net.load_state_dict({key: value + 1 for key, value in net.state_dict().items()})
        got = net(x)
        live.undo()
        torch.testing.assert_close(got, net(x))


def test_a_compiled_model_holds_the_kernel_in_one_graph(run, net):
    wanted = copy.deepcopy(net)
    live = patch(net, run)
    compiled = torch.compile(net, fullgraph=True)
    with torch.no_grad():
        for rows in (16, 16, 7, 9):
            x = torch.randn(rows, 32)
            before = live.calls
            got = compiled(x)
            assert live.calls == before + 2
            torch.testing.assert_close(got, wanted(x))
        before = live.calls
        compiled(torch.randn(65, 32))
        assert live.calls == before, "65 rows were not judged"
        with torch.autocast("cpu"):
            compiled(torch.randn(16, 32))
        assert live.calls == before
    compiled(torch.randn(16, 32)).sum().backward()
    assert live.calls == before
    assert net.first.weight.grad is not None


def test_training_runs_the_reference_with_one_warning(run, net):
    x = torch.randn(16, 32)
    net(x).sum().backward()
    wanted = net.first.weight.grad.clone()
    net.zero_grad()
    live = patch(net.train(), run)
    with pytest.warns(KernelNotUsed, match="no gradient") as told:
        net(x).sum().backward()
    assert len(told) == 1
    assert told[0].filename == __file__
    torch.testing.assert_close(net.first.weight.grad, wanted)
    assert (live.calls, live.fallbacks) == (0, 2)


@pytest.mark.parametrize(
    ("change", "x", "why"),
    [
        (lambda net: net.double(), torch.randn(16, 32).double(), "float64"),
        (lambda net: net, torch.randn(65, 32), "rows = 65"),
        (lambda net: net, torch.randn(2, 16, 32), "3 dimensions"),
        (lambda net: setattr(net.first, "eps", 2.0) or net, torch.randn(16, 32), "its eps was"),
    ],
)
def test_where_it_was_not_judged_the_reference_runs(run, net, change, x, why):
    live = patch(net, run)
    net = change(net)
    with torch.no_grad():
        with pytest.warns(UserWarning, match=why):
            got = net(x)
        live.undo()
        torch.testing.assert_close(got, net(x))
    assert live.fallbacks > 0


def test_a_module_built_otherwise_than_the_judged_one_falls_back(run, norm):
    net, x = Net(norm, eps=0.5), torch.randn(16, 32)
    with torch.no_grad():
        wanted = net(x)
        with pytest.warns(UserWarning, match=r"its eps is 0.5 .* 1e-06") as told:
            live = patch(net, run)
        torch.testing.assert_close(net(x), wanted)
    assert told[0].filename == __file__
    assert (live.calls, live.fallbacks) == (0, 2)


NESTED = (
    BLOCK.replace("class Model", "class Inner").partition("def get_inputs")[0]
    + """
class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.inner = Inner(cols)

    def forward(self, x):
        return self.inner(x)

def get_inputs"""
    + BLOCK.partition("def get_inputs")[2]
)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda model: setattr(model.inner, "eps", 2.0), "inner.eps was changed"),
        (lambda model: model.inner.register_forward_hook(lambda *_: None), "has hooks"),
        (lambda model: setattr(model, "inner", Twice(model.inner)), "inner was replaced"),
    ],
)
def test_what_is_done_to_a_part_of_the_module_is_noticed(tmp_path, cache, monkeypatch, change, why):
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    (tmp_path / "task.py").write_text(NESTED)
    model = load(tmp_path / "task.py", "users_module").Model(32)
    live, x = patch(model, won_run(tmp_path, KERNEL)), torch.randn(16, 32)
    with torch.no_grad():
        model(x)
        change(model)
        with pytest.warns(UserWarning, match=why):
            got = model(x)
        live.undo()
        torch.testing.assert_close(got, model(x))
    assert (live.calls, live.fallbacks) == (1, 1)


class Twice(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.weight, self.inner = inner.weight, inner

    def forward(self, x):
        return 2 * self.inner(x)


def test_another_width_of_the_domain_runs_the_kernel(run, norm):
    net, x = Net(norm, cols=40), torch.randn(16, 40)
    with torch.no_grad():
        wanted = net(x)
        live = patch(net, run)
        torch.testing.assert_close(net(x), wanted)
    assert live.calls == 2


def test_arguments_by_name_and_defaults_spelt_out_are_the_judged_call(run, norm):
    model, x = norm(32), torch.randn(16, 32)
    live = patch(model, run)
    with torch.no_grad():
        model(x=x)
        model(x, 1.0)
        assert live.calls == 2
        with pytest.warns(UserWarning, match="among the arguments"):
            model(x, scale=2.0)
    assert (live.modules, live.calls, live.fallbacks) == (1, 2, 1)


def test_transforms_of_torch_func_see_the_reference(run, net):
    x, plain = torch.randn(3, 16, 32), copy.deepcopy(net)
    live = patch(net, run)
    with pytest.warns(UserWarning, match=r"torch\.func"), torch.no_grad():
        torch.testing.assert_close(torch.func.vmap(net)(x), plain(x))
    got = torch.func.grad(lambda x: net(x).sum())(x[0])
    torch.testing.assert_close(got, torch.func.grad(lambda x: plain(x).sum())(x[0]))
    assert live.calls == 0


def test_a_patched_model_can_be_copied_and_copies_run_the_kernel(run, net):
    live, x = patch(net, run), torch.randn(16, 32)
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.first.weight.zero_()
        assert net.first.weight.abs().sum() > 0
        other.load_state_dict(net.state_dict())
        torch.testing.assert_close(other(x), net(x))
    assert live.calls == 4


def test_a_model_without_the_class_is_told_what_was_looked_for(run, norm):
    with pytest.raises(NothingToPatch, match="class Model, only Sequential, Linear"):
        patch(nn.Sequential(nn.Linear(3, 3)), run)

    class Model(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(NothingToPatch, match="another source"):
        patch(Model(), run)


def test_a_class_of_the_same_text_but_other_globals_is_another(run, tmp_path):
    (tmp_path / "task.py").write_text(BLOCK.replace("POWER = 2", "POWER = 4"))
    with pytest.raises(NothingToPatch, match="another source"):
        patch(load(tmp_path / "task.py", "other").Model(32), run)


def test_an_exported_file_patches_by_itself_and_model_new_compiles(run, norm, tmp_path):
    export_file(run, tmp_path / "out.py")
    exported = load(tmp_path / "out.py")
    net, x = Net(norm), torch.randn(16, 32)
    live = exported.patch(net)
    with torch.no_grad():
        net(x)
        assert (live.modules, live.calls) == (2, 2)
        mine = exported.ModelNew(32)
        compiled = torch.compile(copy.deepcopy(mine), fullgraph=True)
        torch.testing.assert_close(compiled(x), mine(x))
    assert exported.KERNEL.calls == 4
    exported.check_operator()
    with pytest.raises(exported.NothingToPatch, match="only Linear"):
        exported.patch(nn.Linear(3, 3))


def test_model_new_draws_its_parameters_as_model_does(run, norm, tmp_path):
    export_file(run, tmp_path / "out.py")
    exported = load(tmp_path / "out.py")
    torch.manual_seed(42)
    theirs, after = exported.Model(32), torch.rand(3)
    torch.manual_seed(42)
    mine, mine_after = exported.ModelNew(32), torch.rand(3)
    assert torch.equal(mine.weight, theirs.weight)
    assert torch.equal(mine_after, after)
    assert list(mine.state_dict()) == list(theirs.state_dict())


def test_a_class_named_with_its_inputs_is_exported_with_inputs_drawn_alike(tmp_path, norm):
    source = BLOCK.partition("def get_inputs")[0].replace("class Model", "class Norm")
    (tmp_path / "task.py").write_text(source.replace("cols, eps", "cols=32, eps"))
    target = f"{tmp_path / 'task.py'}:Norm"
    run = won_run(tmp_path, KERNEL, target=target, inputs=("16x32:float32",))
    export_file(run, tmp_path / "out.py")
    exported = load(tmp_path / "out.py")
    assert exported.main() == 0
    users = load(tmp_path / "task.py", "users_module").Norm()
    live = patch(users, run)
    with torch.no_grad():
        torch.testing.assert_close(users(exported.get_inputs()[0]).shape, torch.Size([16, 32]))
    assert live.calls == 1
