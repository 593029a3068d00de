"""A run's winner as one file, that runs where kernelwright is not."""

from __future__ import annotations

import sys

import pytest
import torch
from winners import KERNEL, TASK, load, won_run

import program
import records
from kernelwright.backends.graph_program import dump
from kernelwright.export import ExportImpossible, export_file
from kernelwright.runs import RunFolder, create_run
from kernelwright.tasks.catalog import find_task


@pytest.fixture
def run(tmp_path) -> RunFolder:
    """A run whose winner is KERNEL."""
    (tmp_path / "task.py").write_text(TASK)
    return won_run(tmp_path, KERNEL)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """That run, exported."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "task.py").write_text(TASK)
    export_file(won_run(folder), folder / "out.py")
    return folder / "out.py"


@pytest.fixture
def exported(file, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(file.parent / "cache"))
    return load(file)


def models(exported):
    theirs, mine = exported.Model(33), exported.ModelNew(33)
    mine.load_state_dict(theirs.state_dict())
    return theirs, mine


def test_the_file_tests_itself_without_kernelwright(file, tmp_path):
    block = "import sys; sys.modules['kernelwright'] = None; import runpy; "
    block += f"runpy.run_path({str(file)!r}, run_name='__main__')"
    ran = program.run(first=(sys.executable, "-c", block), XDG_CACHE_HOME=str(tmp_path))
    assert ran.status == 0, ran.err
    assert "right; " in ran.out


def test_the_kernel_really_runs_and_is_right_at_every_shape_of_the_domain(exported):
    theirs, mine = models(exported)
    with torch.no_grad():
        for rows in (1, 7, 512, 7):
            x = torch.randn(rows, 33)
            for _ in range(2):
                torch.testing.assert_close(mine(x, 2.0), theirs(x, 2.0))
    assert exported.KERNEL.calls == 8
    assert exported.KERNEL.fallbacks == 0


@pytest.mark.parametrize(
    ("x", "power", "why"),
    [
        (torch.randn(8, 33).double(), 2.0, "float64"),
        (torch.randn(513, 33), 2.0, "rows = 513 outside 1 to 512"),
        (torch.randn(33, 8).t(), 2.0, "not contiguous"),
        (torch.randn(8, 33), 3.0, "among the arguments"),
        (torch.randn(4, 8, 33), 2.0, "3 dimensions"),
    ],
)
def test_elsewhere_the_reference_runs_with_one_warning(exported, x, power, why):
    theirs, mine = models(exported)
    with torch.no_grad():
        with pytest.warns(exported.KernelNotUsed, match=why) as told:
            got = [mine(x, power) for _ in range(3)][-1]
        torch.testing.assert_close(got, theirs(x, power))
    assert len(told) == 1
    assert exported.KERNEL.fallbacks == 3
    assert exported.KERNEL.calls == 0


def test_with_gradients_or_autocast_on_the_reference_runs(exported):
    theirs, mine = models(exported)
    x = torch.randn(8, 33)
    with pytest.warns(exported.KernelNotUsed, match="no gradient"):
        mine(x, 2.0)[0].sum().backward()
    theirs(x, 2.0)[0].sum().backward()
    torch.testing.assert_close(mine.weight.grad, theirs.weight.grad)
    with (
        torch.no_grad(),
        torch.autocast("cpu"),
        pytest.warns(exported.KernelNotUsed, match="autocast"),
    ):
        mine(x, 2.0)


def test_without_a_compiler_the_reference_runs_and_the_self_test_fails(file, tmp_path):
    nowhere = {"PATH": "/nonexistent", "XDG_CACHE_HOME": str(tmp_path)}
    ran = program.run(first=(sys.executable, str(file)), **nowhere)
    assert ran.status == 1
    assert "FAILED" in ran.out
    assert "install g++" in ran.out


def test_a_wrong_kernel_fails_its_self_test(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    run = won_run(tmp_path, KERNEL.replace("* w[c] * 2", "* w[c] * 2.001f"))
    export_file(run, tmp_path / "out.py")
    ran = program.run(
        first=(sys.executable, str(tmp_path / "out.py")), XDG_CACHE_HOME=str(tmp_path)
    )
    assert ran.status == 1
    assert "output 0 is off by" in ran.out


def test_a_run_without_a_win_has_nothing_to_export(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    task = find_task(str(tmp_path / "task.py"))
    folder = create_run(tmp_path, records.run_record().model_copy(update={"task": task}))
    ran = program.run("export", folder.path, "-o", tmp_path / "out.py")
    assert ran.status == 2
    assert "no verified win" in ran.complaint
    assert not (tmp_path / "out.py").exists()


def test_a_graph_is_exported_as_the_function_it_stands_for(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    nodes = [
        {"op": "aten.relu.default", "args": [{"ref": 0}]},
        {"op": "aten.mul.Tensor", "args": [{"ref": 2}, {"ref": 1}]},
        {"op": "aten.mul.Tensor", "args": [{"ref": 3}, 2.0]},
        {"op": "aten.amax.default", "args": [{"ref": 0}, [1]]},
    ]
    text = dump(2, nodes, [{"ref": 4}, {"ref": 5}])
    export_file(won_run(tmp_path, text, "graph", "program.json"), tmp_path / "out.py")
    assert "v5 = aten.amax.default(v0, [1])" in (tmp_path / "out.py").read_text()
    ran = program.run(
        first=(sys.executable, str(tmp_path / "out.py")), XDG_CACHE_HOME=str(tmp_path)
    )
    assert ran.status == 0, ran.err
    assert "right; " in ran.out
    nowhere = {"PATH": "/nonexistent", "XDG_CACHE_HOME": str(tmp_path)}
    ran = program.run(first=(sys.executable, str(tmp_path / "out.py")), **nowhere)
    assert ran.status == 1
    assert "install g++" in ran.out


@pytest.mark.parametrize(
    ("line", "instead", "why"),
    [
        ("import torch\n", "import torch, neighbour\n", "No module named 'neighbour'"),
        ('DOMAIN = {"rows": (1, 512), "cols": (1, 64)}', "", "cannot be traced"),
    ],
)
def test_a_kernel_whose_operator_is_unsound_is_not_exported(tmp_path, line, instead, why):
    (tmp_path / "neighbour.py").write_text("")
    source = TASK.replace(line, instead)
    if "DOMAIN" not in source:
        source = source.replace("x.amax(1)", "x.amax(1) + int(x.sum().item() > 1e9)")
    (tmp_path / "task.py").write_text(source)
    with pytest.raises(ExportImpossible, match=why):
        export_file(won_run(tmp_path, KERNEL), tmp_path / "out.py")
    assert not (tmp_path / "out.py").exists()


def test_what_does_not_fit_is_refused_and_nothing_is_overwritten(run, tmp_path):
    (tmp_path / "mine.py").write_text("precious")
    with pytest.raises(ExportImpossible, match="it exists"):
        export_file(run, tmp_path / "mine.py")
    assert (tmp_path / "mine.py").read_text() == "precious"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "task.py").write_text(TASK)
    python = won_run(tmp_path / "other", "class ModelNew: ...", kind="python", name="k.py")
    with pytest.raises(ExportImpossible, match="itself a Python file"):
        export_file(python, tmp_path / "out.py")
    (tmp_path / "task.py").write_text(TASK + "# changed\n")
    ran = program.run("export", run.path, "-o", tmp_path / "new.py")
    assert ran.status == 2
    assert "changed" in ran.complaint
