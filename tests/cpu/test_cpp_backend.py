import json
import os

import pytest

from kernelwright.backends import BuildFailure, CppBackend, NativeArtefact
from kernelwright.backends.toolchain import FLAGS
from kernelwright.core import Candidate, CompilerMissing, SourceFile

GOOD = """
#include "kernelwright.h"
#include <math.h>
extern "C"
void kernel(const kw_tensor* in, int, const kw_tensor* out, int) {
  ((float*)out[0].data)[0] = sinf(((float*)in[0].data)[0]);
}
"""


def cpp(text, name="k.cpp"):
    return Candidate(kind="cpp", sources=(SourceFile(name=name, text=text),))


def test_a_candidate_is_built_once(tmp_path):
    first = CppBackend().build(cpp(GOOD), tmp_path)
    assert isinstance(first, NativeArtefact)
    built_at = first.library.stat().st_mtime_ns
    assert CppBackend().build(cpp(GOOD), tmp_path) == first
    assert first.library.stat().st_mtime_ns == built_at


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("int broken(", "error"),
        ("int f() { }", "no return statement"),
        ('extern "C" int absent(); int g() { return absent(); }', "absent"),
        ('#include "missing.h"', "missing.h"),
    ],
)
def test_a_failure_names_the_first_error_and_is_remembered(tmp_path, text, says):
    failure = CppBackend().build(cpp(text), tmp_path)
    assert isinstance(failure, BuildFailure)
    assert says in failure.reason
    assert "\n" not in failure.reason
    record = next((tmp_path / "cpp").glob("*.built"))
    failure = {"reason": "from the cache", "log": ""}
    record.write_text(json.dumps({"failure": failure, "facts": None}))
    assert CppBackend().build(cpp(text), tmp_path) == BuildFailure("from the cache")


def test_a_candidate_without_a_unit_does_not_build(tmp_path):
    failure = CppBackend().build(cpp("", name="notes.txt"), tmp_path)
    assert failure == BuildFailure("the candidate has no .cpp file")


def test_the_identity_is_the_content():
    assert cpp(GOOD).id == cpp(GOOD).model_copy(update={"idea": "another"}).id
    assert cpp(GOOD).id != cpp(GOOD + " ").id
    assert cpp(GOOD).id != cpp(GOOD).model_copy(update={"entry": "other"}).id


@pytest.mark.parametrize("name", ["../k.cpp", "/tmp/k.cpp", "a/b.cpp", ".hidden.cpp", ""])
def test_a_source_cannot_be_named_out_of_its_folder(name):
    with pytest.raises(ValueError, match="name"):
        SourceFile(name=name, text="")


def test_no_compiler_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CompilerMissing, match=r"'g\+\+' is not on PATH. Install 'g\+\+'"):
        CppBackend().build(cpp(GOOD), tmp_path)


def test_a_compile_that_never_ends_is_cut(tmp_path, monkeypatch):
    slow = tmp_path / "slow"
    slow.mkdir()
    script = '#!/bin/sh\n[ "$1" = --version ] && echo slow 1 && exit\nsleep 60\n'
    (slow / "g++").write_text(script)
    (slow / "g++").chmod(0o755)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", f"{slow}:{os.environ['PATH']}")
    monkeypatch.setattr("kernelwright.backends.cpp._TIMEOUT_S", 0.5)
    failure = CppBackend().build(cpp(GOOD), tmp_path)
    assert isinstance(failure, BuildFailure)
    assert "took more than 0.5 s" in failure.reason
    assert not list((tmp_path / "cpp").glob("*.built"))


def test_fast_math_is_never_among_the_flags():
    assert not [flag for flag in FLAGS if "fast-math" in flag or "Ofast" in flag]
