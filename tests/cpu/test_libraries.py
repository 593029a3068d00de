"""What a Candidate calls is seen from outside, whatever its text says."""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.candidate import Candidate, SourceFile
from kernelwright.core.errors import TaskUnusable
from kernelwright.core.verdict import Accepted, LibraryUse, Rejected
from kernelwright.judge import open_session
from kernelwright.judge.defences import Defences
from kernelwright.judge.effort import EFFORTS
from kernelwright.report.words import lines_of
from kernelwright.sandbox import probe_jail
from kernelwright.sandbox.symbols import NO_SYMBOLS, _parse, symbols_of
from kernelwright.tasks.catalog import find_task

TASK = """
import torch
from torch import nn

FORBIDDEN_CALLS = {forbidden}
DOMAIN = {{"rows": (1, 4096), "cols": (1, 4096)}}


class Model(nn.Module):
    def forward(self, x):
        e = torch.exp(x - x.amax(-1, keepdim=True))
        return e / e.sum(-1, keepdim=True)


def get_inputs(rows=2048, cols=1024):
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
"""
HIDDEN = """
import torch
from torch import nn

f = getattr(torch, "".join(("soft", "max")))


class ModelNew(nn.Module):
    def forward(self, x):
        return f(x, -1)
"""
WRITTEN = """
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, softmax):
        e = torch.exp(softmax - softmax.amax(-1, keepdim=True))
        return e * (1 / e.sum(-1, keepdim=True))
"""


def python(text: str) -> Candidate:
    return Candidate(kind="python", sources=(SourceFile(name="k.py", text=text),))


def task(folder: Path, forbidden: str):
    path = folder / "written.py"
    path.write_text(TASK.format(forbidden=forbidden))
    return find_task(str(path))


@pytest.mark.serial
def test_a_forbidden_call_is_refused_and_the_word_for_it_is_not(tmp_path: Path) -> None:
    with open_session(task(tmp_path, '("*softmax*",)')) as session:
        outcome = session.judge(python(HIDDEN), "T2").outcome
        assert isinstance(outcome, Rejected), outcome
        assert outcome.stage == "audit"
        assert "softmax, which the task forbids" in outcome.reason
        outcome = session.judge(python(WRITTEN), "T1").outcome
        assert isinstance(outcome, Accepted), outcome


def test_what_is_allowed_is_recorded(tmp_path: Path) -> None:
    often = replace(EFFORTS["T1"], look_share=1.0)  # its own few looks may all come too late
    with open_session(task(tmp_path, "()")) as session:
        outcome = session.judge(python(HIDDEN), "T1", effort=often).outcome
    assert isinstance(outcome, Accepted), outcome
    assert isinstance(outcome.libraries, LibraryUse)
    assert outcome.libraries.looks > 0
    assert "softmax" in {one.name for one in outcome.libraries.operators}
    assert "libtorch_cpu.so" in {one.name for one in outcome.libraries.objects}


def test_a_list_of_forbidden_calls_must_be_one(tmp_path: Path) -> None:
    with (
        pytest.raises(TaskUnusable, match="FORBIDDEN_CALLS is no tuple of names"),
        open_session(task(tmp_path, "{3: 4}")),
    ):
        pass


def test_symbols_name_the_function_an_offset_is_in() -> None:
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    found = symbols_of(str(path), path.stat().st_ino)
    name = b"_ZN2at4_ops11softmax_int4callERKNS_6TensorElSt8optionalIN3c1010ScalarTypeEE"
    place = found.text.index(name + b"\0")
    (at,) = (found.names == place).nonzero()
    _, _, address = found.segments[0]
    assert address == 0
    start = int(found.starts[at[0]])
    offset = next(start - a + o for o, n, a in found.segments if a <= start < a + n)
    assert found.name_at(offset) == found.name_at(offset + 1) == name.decode()


def test_another_file_at_the_same_path_has_no_symbols() -> None:
    assert symbols_of(sys.executable, 1) is NO_SYMBOLS
    assert symbols_of("/nowhere", 1) is NO_SYMBOLS


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "libtorch_cpu.so"
    os.mkfifo(pipe)
    assert symbols_of(str(pipe), pipe.stat().st_ino) is NO_SYMBOLS


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_no_bytes_make_the_parser_fail(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, head: bool
) -> None:
    path = tmp_path_factory.mktemp("elf") / "x.so"
    start = b"\x7fELF\x02\x01" + bytes(10) if head else b""
    path.write_bytes(start + tail)
    found = symbols_of(str(path), path.stat().st_ino)
    assert found.name_at(0) == ""


def test_a_table_that_claims_to_be_huge_is_not_read(tmp_path: Path) -> None:
    head = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01", 3, 62, 1, 0, 0, 64, 0, 64, 56, 0, 64, 1, 0
    )
    section = struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 0, 1 << 60, 0, 0, 0, 24)
    path = tmp_path / "x.so"
    path.write_bytes(head + section)
    with pytest.raises(ValueError, match="a table of"):
        _parse(path)
    assert symbols_of(str(path), path.stat().st_ino) is NO_SYMBOLS


@pytest.mark.slow
def test_a_right_kernel_in_a_jail_that_holds_is_certified(tmp_path: Path) -> None:
    if probe_jail().tier not in ("A", "B"):
        pytest.skip("this machine has no jail of tier A or B")
    with open_session(task(tmp_path, "()")) as session:
        verdict = session.judge(python(WRITTEN), "T3")
        assert isinstance(verdict.outcome, Accepted), verdict.outcome
        assert verdict.provenance.certified, verdict.provenance.notes
        assert "code, by" in "\n".join(lines_of(verdict))
    with open_session(task(tmp_path, "()"), defences=Defences(fence=False)) as session:
        verdict = session.judge(python(WRITTEN), "T3")
        assert not verdict.provenance.certified
        assert "uncertified: without fence" in verdict.provenance.notes
