"""What a person types becomes a Task, or one clear line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.core import (
    BuiltinOrigin,
    FileOrigin,
    KernelBenchOrigin,
    ModuleOrigin,
    Task,
    TaskNotFound,
    TaskUnusable,
)
from kernelwright.tasks.catalog import builtin_names, describe, find_task, reference_spec

BUILTINS = [
    *("argmax", "avg_pool", "causal_attention", "conv_tail", "depthwise_conv", "gelu_tanh"),
    *("kl_div", "layernorm", "linear_avgpool_gelu_max", "linear_mish_mish", "log_softmax_nll"),
    *("masked_cumsum", "matmul_sum", "max_pool", "rmsnorm", "softmax", "transformer_block"),
]
FILE = "class Model: ...\n"


def test_the_built_ins_have_a_domain_and_a_line_of_description() -> None:
    assert builtin_names() == BUILTINS
    for name in BUILTINS:
        task = find_task(name)
        assert task.origin == BuiltinOrigin(name=name)
        assert not task.one_shape
        assert all(1 <= dim.low <= dim.high for dim in task.domain)
        assert describe(name).endswith(".")


def test_a_task_survives_json() -> None:
    task = find_task("softmax")
    assert Task.model_validate_json(task.model_dump_json()) == task


def test_a_misspelled_name_is_guessed() -> None:
    with pytest.raises(TaskNotFound, match="did you mean 'softmax'"):
        find_task("sofmax")


def test_a_name_like_nothing_lists_what_there_is() -> None:
    with pytest.raises(TaskNotFound, match="argmax, avg_pool"):
        find_task("zzz")


def test_a_file_has_one_shape_unless_it_says_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    task = find_task(str(path))
    assert task.origin == FileOrigin(path=str(path))
    assert task.one_shape
    path.write_text(FILE + 'DOMAIN = {"rows": (1, 64)}\n')
    wider = find_task(str(path))
    assert [(dim.name, dim.low, dim.high) for dim in wider.domain] == [("rows", 1, 64)]
    assert wider.source_hash != task.source_hash


def test_reading_the_domain_runs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import nothing_of_the_kind\nDOMAIN = {'n': (print('ran'), 2)}\n")
    assert find_task(str(path)).domain == ()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TaskNotFound, match="there is no such file"):
        find_task(str(tmp_path / "none.py"))


def test_a_class_in_a_file_takes_its_inputs_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("class Block: ...\n")
    task = find_task(f"{path}:Block", inputs=["4096x1024:float32", "7:int64", "3x3"])
    assert isinstance(task.origin, ModuleOrigin)
    spec = reference_spec(task)
    assert (spec.kind, spec.target, spec.class_name) == ("module", str(path), "Block")
    assert spec.inputs == (((4096, 1024), "float32"), ((7,), "int64"), ((3, 3), "float32"))


@pytest.mark.parametrize("text", ["4096*1024", "3x:float32", "3x3:floaty", ""])
def test_a_malformed_input_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "net.py"
    path.write_text("class Block: ...\n")
    with pytest.raises(TaskUnusable, match="4096x1024:float32"):
        find_task(f"{path}:Block", inputs=[text])


def test_a_class_without_inputs_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("class Block: ...\n")
    with pytest.raises(TaskUnusable, match="--input"):
        find_task(f"{path}:Block")


def test_a_dotted_module_is_found_without_running_it() -> None:
    task = find_task("json.decoder:JSONDecoder", inputs=["2"])
    assert reference_spec(task).target == "json.decoder"


@pytest.mark.parametrize("module", ["nothing_of_the_kind", "nothing.at.all", "sys"])
def test_a_module_that_cannot_be_read_is_not_found(module: str) -> None:
    with pytest.raises(TaskNotFound, match="can be imported"):
        find_task(f"{module}:Model", inputs=["2"])


def test_a_module_below_this_folder_gets_the_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mynet.py").write_text("class Block: ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    with pytest.raises(TaskNotFound, match="PYTHONPATH"):
        find_task("mynet:Block", inputs=["2"])


@pytest.mark.parametrize("layout", ["level1", "KernelBench/level1"])
def test_kernelbench_by_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    folder = tmp_path / layout
    folder.mkdir(parents=True)
    (folder / "23_Softmax.py").write_text(FILE)
    (folder / "2_Other.py").write_text(FILE)
    task = find_task("kernelbench:1/23", kernelbench=tmp_path)
    path = str(folder / "23_Softmax.py")
    assert task.origin == KernelBenchOrigin(path=path, level=1, problem=23)
    monkeypatch.setenv("KERNELBENCH_ROOT", str(tmp_path))
    assert find_task("kernelbench:1/23") == task
    with pytest.raises(TaskNotFound, match="has no file 3_"):
        find_task("kernelbench:1/3")
    with pytest.raises(TaskNotFound, match="LEVEL/PROBLEM"):
        find_task("kernelbench:one/three")


def test_kernelbench_without_a_folder_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KERNELBENCH_ROOT", raising=False)
    with pytest.raises(TaskNotFound, match="KERNELBENCH_ROOT"):
        find_task("kernelbench:1/23")


def test_listing_tasks_does_not_load_torch() -> None:
    code = (
        "import sys; from kernelwright.tasks import builtin_names, find_task; "
        "find_task(builtin_names()[0]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_workers_need_no_pydantic() -> None:
    code = (
        "import sys; sys.modules['pydantic'] = None; sys.modules['cyclopts'] = None\n"
        "from kernelwright.core.errors import TaskUnusable\n"
        "from kernelwright.tasks import reference, slots, bind\n"
        "try: reference.load_reference(reference.ReferenceSpec('file', '/none.py'))\n"
        "except TaskUnusable as error: assert '/none.py: it does not import' in str(error)\n"
        "else: raise SystemExit('loaded')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
