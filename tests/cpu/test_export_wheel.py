"""A run's winner as a wheel, installed where there is no compiler and no kernelwright."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from winners import TASK, won_run

import program
from kernelwright.backends.graph_program import dump
from kernelwright.backends.toolchain import find_toolchain
from kernelwright.export import ExportImpossible, export_wheel
from kernelwright.export.processor import needed_features


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "task.py").write_text(TASK)
    return won_run(folder)


@pytest.fixture(scope="module")
def wheel(run, tmp_path_factory) -> Path:
    ran = program.run("export", run.path, "--format", "wheel", "-o", run.path / "dist", "--json")
    assert ran.status == 0, ran.err
    return Path(ran.json["file"])


@pytest.fixture
def installed(wheel, tmp_path) -> Path:
    """The package's folder."""
    command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "-q"]
    subprocess.run([*command, "--target", str(tmp_path / "site"), str(wheel)], check=True)
    return tmp_path / "site" / wheel.name.partition("-")[0]


def call_package(package: Path, code: str = "", **env: str) -> program.Ran:
    """Runs `python -m` of it, or other code, without a compiler and without kernelwright."""
    code = code or f"import runpy; runpy.run_module({package.name!r}, run_name='__main__')"
    block = "import sys; sys.modules['kernelwright'] = None; " + code
    nowhere = {"PATH": "/nonexistent", "XDG_CACHE_HOME": str(package.parent / "cache")} | env
    return program.run(
        first=(sys.executable, "-c", block), PYTHONPATH=str(package.parent), **nowhere
    )


def test_it_runs_its_kernel_without_a_compiler_or_kernelwright(wheel, installed):
    ran = call_package(installed)
    assert ran.status == 0, ran.err
    assert "right; " in ran.out
    code = f"import {installed.name} as k, torch; m = k.ModelNew(33); torch.set_grad_enabled(False)"
    code += "; m(torch.randn(8, 33), 2.0); print(k.KERNEL.calls, k.KERNEL.fallbacks)"
    assert call_package(installed, code).out == "1 0\n"
    assert not (installed.parent / "cache").exists(), "nothing was compiled"


def test_the_wheel_says_what_it_is(wheel, run):
    verdict = run.best()
    name = f"kernelwright_softmax_{verdict.candidate}"
    assert wheel.name.startswith(f"{name}-0.1.0-py3-none-linux_")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        stored = json.loads(archive.read(f"{name}/verdict.json"))
        record = archive.read(f"{name}-0.1.0.dist-info/RECORD").decode().splitlines()
    assert stored == json.loads(verdict.model_dump_json())
    assert {f"{name}/__init__.py", f"{name}/__main__.py", f"{name}/kernel.so"} < names
    assert {line.partition(",")[0] for line in record} == names


def lacking_a_feature(package: Path) -> None:
    text = (package / "__init__.py").read_text()
    (package / "__init__.py").write_text(text.replace("needs=[", "needs=['avx9000', "))
    (package / "kernel.so").write_text("loading this would fail otherwise than with a warning")


def test_a_processor_that_lacks_a_feature_never_loads_the_library(installed):
    lacking_a_feature(installed)
    ran = call_package(installed)
    assert ran.status == 1
    assert "lacks avx9000" in ran.out
    assert "install g++" in ran.out


def test_there_the_kernel_is_compiled_if_a_compiler_is(installed):
    lacking_a_feature(installed)
    ran = call_package(installed, PATH="/usr/local/bin:/usr/bin:/bin")
    assert ran.status == 0, ran.err + ran.out
    assert list((installed.parent / "cache").rglob("*.so"))


def test_the_features_are_those_the_compiler_may_use_here():
    needed = needed_features(find_toolchain())
    line = next(x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("flags"))
    here = line.split()
    assert set(needed) <= set(here)
    for feature in ("sse2", "avx2", "fma", "bmi1", "avx512f", "avx512_vnni", "pni"):
        assert (feature in needed) == (feature in here), feature


def test_a_graph_makes_a_wheel_for_any_machine(tmp_path):
    (tmp_path / "task.py").write_text(TASK)
    nodes = [
        {"op": "aten.relu.default", "args": [{"ref": 0}]},
        {"op": "aten.mul.Tensor", "args": [{"ref": 2}, {"ref": 1}]},
        {"op": "aten.mul.Tensor", "args": [{"ref": 3}, 2.0]},
        {"op": "aten.amax.default", "args": [{"ref": 0}, [1]]},
    ]
    text = dump(2, nodes, [{"ref": 4}, {"ref": 5}])
    wheel, _ = export_wheel(won_run(tmp_path, text, "graph", "program.json"), tmp_path)
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith(".so")]


def test_nothing_is_overwritten_and_nothing_else_than_a_win_is_exported(run, wheel, tmp_path):
    with pytest.raises(ExportImpossible, match="it exists"):
        export_wheel(run, wheel.parent)
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ExportImpossible, match="Name a folder"):
        export_wheel(run, tmp_path / "file")
    (tmp_path / "task.py").write_text(TASK)
    python = won_run(tmp_path, "class ModelNew: ...", kind="python", name="k.py")
    with pytest.raises(ExportImpossible, match="itself a Python file"):
        export_wheel(python, tmp_path)
