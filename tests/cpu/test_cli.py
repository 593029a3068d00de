"""Each verb from end to end, as a user types it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import program
import records
from kernelwright.core import FileOrigin, Task
from kernelwright.runs import create_run, open_run, write_candidate
from kernelwright.tasks.catalog import builtin_names

TINY_TASK = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.randn(64, 33)]
def get_init_inputs():
    return []
"""
TINY_KERNEL = """
#include "kernelwright.h"
extern "C" void kernel(const kw_tensor* in, int n_in, const kw_tensor* out, int n_out) {
  const float* x = (const float*)in[0].data;
  float* y = (float*)out[0].data;
  for (long i = 0; i < in[0].sizes[0] * in[0].sizes[1]; i++) y[i] = x[i] > 0 ? 2 * x[i] : 0;
}
"""

SMALL_SOFTMAX = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)
def get_inputs():
    return [torch.randn(512, 512)]
def get_init_inputs():
    return []
"""


@pytest.fixture
def softmax(tmp_path) -> Path:
    path = tmp_path / "small.py"
    path.write_text(SMALL_SOFTMAX)
    return path


@pytest.fixture
def task(tmp_path) -> Path:
    path = tmp_path / "tiny.py"
    path.write_text(TINY_TASK)
    return path


@pytest.fixture
def kernel(tmp_path) -> Path:
    path = tmp_path / "k.cpp"
    path.write_text(TINY_KERNEL)
    return path


def test_doctor_says_what_is_there_and_what_is_missing_costs(tmp_path):
    ran = program.run("doctor", "--json", KERNELBENCH_ROOT=str(tmp_path))
    assert ran.status == 0
    assert ran.json["compiler"]["state"] == "ok"
    assert ran.json["openmp"]["detail"].endswith("threads")
    assert ran.json["kernelbench"]["state"] == "missing"
    for finding in ran.json.values():
        assert finding["state"] == "ok" or finding["advice"]


def test_doctor_without_a_compiler_says_how_to_get_one(tmp_path):
    ran = program.run("doctor", PATH=str(tmp_path))
    assert ran.status == 2
    assert "apt-get install g++" in ran.out


def test_tasks_lists_the_built_in_ones_and_shows_one():
    listed = program.run("tasks", "--json").json["tasks"]
    assert sorted(listed) == builtin_names()
    ran = program.run("tasks", "show", "softmax")
    assert ran.status == 0
    assert "rows" in ran.out
    assert "float32" in ran.out
    shown = program.run("tasks", "show", "softmax", "--json").json
    assert [output["role"] for output in shown["signature"]["outputs"]] == ["output"]


def test_tasks_show_takes_a_class_and_its_inputs(task):
    ran = program.run("tasks", "show", f"{task}:Model", "--input", "8x4:float32", "--json")
    assert ran.status == 0
    assert ran.json["origin"]["inputs"] == [{"shape": [8, 4], "dtype": "float32"}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["softmx"], "did you mean 'softmax'?"),
        (["nowhere.py"], "there is no such file"),
        (["no.such.module:Model", "--input", "4"], "no Python module 'no.such.module'"),
        (["kernelbench:1/23"], "--kernelbench DIR or $KERNELBENCH_ROOT"),
        (["softmax", "--budget", "soon"], "Write 90s, 5m, 1h"),
        (["softmax", "--proposer", "oracle"], "choose one of"),
        (["softmax", "--runs", "/proc/runs"], "Choose another --runs folder"),
    ],
)
def test_optimize_refuses_what_it_cannot_start(words, said):
    ran = program.run("optimize", *words, "--json", KERNELBENCH_ROOT="")
    assert ran.status == 2
    assert said in ran.complaint
    assert said in ran.json["error"]


def test_judge_prints_one_verdict_and_makes_no_run(task, kernel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = program.run("judge", kernel, "--task", task, "--tier", "T0", "--json")
    assert ran.status == 0, ran.err
    assert len(ran.out.splitlines()) == 1
    assert ran.json["outcome"]["kind"] == "accepted"
    assert ran.json["outcome"]["timing"] == {"kind": "not_timed"}
    assert not (tmp_path / "runs").exists()


def test_a_rejected_candidate_is_status_1_and_a_reason(task, kernel):
    kernel.write_text(TINY_KERNEL.replace("2 * x[i]", "x[i]"))
    ran = program.run("judge", kernel, "--task", task, "--tier", "T1")
    assert ran.status == 1
    assert "Traceback" not in ran.err
    assert "rejected (verify)" in ran.out


def test_an_empty_candidate_folder_is_said_before_anything_is_started(task, tmp_path):
    (tmp_path / "empty").mkdir()
    ran = program.run("judge", tmp_path / "empty", "--task", task)
    assert ran.status == 2
    assert ran.err.count("\n") == 1
    assert "it is empty. A candidate is a folder with candidate.json" in ran.complaint


def test_without_a_compiler_one_line_says_so(task, kernel, tmp_path):
    ran = program.run("judge", kernel, "--task", task, "--tier", "T0", PATH=str(tmp_path / "none"))
    assert ran.status == 2
    assert "'g++' is not on PATH" in ran.complaint


@pytest.mark.serial
def test_optimize_ends_with_the_promised_object_and_a_run_that_agrees(softmax, tmp_path):
    runs = tmp_path / "runs"
    ran = program.run("optimize", softmax, "--budget", "60s,2", "--runs", runs, "--json")
    assert ran.status in (0, 1, 3), ran.err
    result = ran.json
    assert list(result) == [
        "run",
        "task",
        "outcome",
        "best",
        "first_win_s",
        "candidates",
        "accepted",
        "wins",
        "notes",
    ]
    assert ran.status == {"win": 0, "no_win": 1, "inconclusive": 3}[result["outcome"]]
    if result["outcome"] == "inconclusive":
        pytest.skip("this machine is too busy to confirm a win")
    folder = open_run(Path(result["run"]))
    verdicts = folder.verdicts()
    screened = {v.candidate for v in verdicts if v.tier == "T1"}
    assert (result["task"], result["candidates"]) == ("small", len(screened))
    final = [v for v in verdicts if v.tier == "T2"]
    assert final, "at least one candidate is confirmed"
    best = next(v for v in final if v.candidate == result["best"]["candidate"])
    assert result["best"]["speedup"]["low"] == best.speedup.low
    assert (result["outcome"] == "win") == best.win
    for verdict in verdicts:
        assert folder.load_candidate(verdict.candidate).kind == verdict.candidate_kind


@pytest.mark.serial
def test_ctrl_c_leaves_the_run_intact_and_no_process_behind(softmax, tmp_path):
    runs = tmp_path / "runs"
    words = ("optimize", softmax, "--budget", "5m", "--runs", runs, "--json")
    ran, alive = program.interrupt_after("#2 ", *words)
    assert ran.status == 130
    assert alive == []
    assert ran.json["outcome"] == "interrupted"
    assert ran.json["run"] in ran.complaint
    folder = open_run(Path(ran.json["run"]))
    assert len(folder.verdicts()) >= 2
    for verdict in folder.verdicts():
        folder.load_candidate(verdict.candidate)


@pytest.mark.serial
def test_ctrl_c_while_it_starts_up_is_no_traceback_either(softmax, tmp_path):
    words = ("optimize", softmax, "--runs", tmp_path, "--json")
    ran, alive = program.interrupt_after("baseline: eager", *words)
    assert ran.status == 130
    assert alive == []
    assert ran.json["candidates"] == 0
    assert "interrupted" in ran.complaint


def test_a_stored_candidate_can_be_judged_again(task, kernel, tmp_path):
    from kernelwright.runs import read_candidate

    write_candidate(read_candidate(kernel), tmp_path / "stored")
    ran = program.run("judge", tmp_path / "stored", "--task", task, "--tier", "T0")
    assert ran.status == 0
    assert "builds and loads" in ran.out


@pytest.mark.serial
def test_a_run_goes_on_where_it_stopped(softmax, tmp_path):
    first = program.run("optimize", softmax, "--budget", "5m,1", "--runs", tmp_path, "--json").json
    folder = open_run(Path(first["run"]))
    before = folder.verdicts()
    ran = program.run("optimize", "--resume", folder.path, "--budget", "5m,3", "--json")
    assert ran.status in (0, 1), ran.err
    assert ran.json["run"] == str(folder.path)
    after = folder.verdicts()
    assert after[: len(before)] == before
    assert [v.tier for v in after].count("T1") == 3
    told = program.run("explain", folder.path)
    assert told.status == 0
    assert "calls compared in full with float64" in told.out
    again = program.run("reverify", folder.path)
    if folder.best() is None:
        assert "it has no verified win" in again.complaint
    else:
        assert folder.verdicts()[-1].tier == "T3"


@pytest.mark.serial
def test_five_kills_lose_and_repeat_nothing():
    script = Path(__file__).parents[2] / "benchmarks" / "resume.py"
    words = [sys.executable, str(script), "--kills", "5", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"kills": 5, "lost": 0, "duplicated": 0}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["optimize"], "needs a TASK, or --resume RUN"),
        (["optimize", "softmax", "--resume", "runs/x"], "needs a TASK, or --resume RUN"),
        (["optimize", "--resume", "no/such/run"], "it has no run.json"),
        (["reverify", "no/such/run"], "it has no run.json"),
        (["explain", "no/such/run"], "it has no run.json"),
        (["explain", __file__], "RUN/candidates/ID"),
    ],
)
def test_what_cannot_be_resumed_is_one_line(words, says):
    ran = program.run(*words)
    assert ran.status == 2
    assert says in ran.complaint


def test_a_changed_task_and_a_busy_folder_are_not_resumed(task, tmp_path):
    origin = FileOrigin(path=str(task))
    digest = hashlib.sha256(TINY_TASK.encode()).hexdigest()
    record = records.run_record().model_copy(
        update={"task": Task(name="tiny", origin=origin, source_hash=digest), "proposer": "search"}
    )
    folder = create_run(tmp_path / "runs", record)
    with folder.lock():
        busy = program.run("optimize", "--resume", folder.path)
    assert busy.status == 2
    assert "another kernelwright is at work in it" in busy.complaint
    task.write_text(TINY_TASK + "# another\n")
    changed = program.run("optimize", "--resume", folder.path)
    assert changed.status == 2
    assert "it was changed since the run began" in changed.complaint
    assert folder.verdicts() == []
