"""What a compiler may read while it builds a Candidate, and what if it cannot be bound."""

import os

import pytest

from kernelwright.backends import BACKENDS, BuildFailure, NativeArtefact
from kernelwright.core import Candidate, SourceFile
from kernelwright.core.errors import SandboxBroke
from kernelwright.sandbox import NO_JAIL, probe_jail, run_compiler
from program import own_children

KERNEL = """#include "kernelwright.h"
extern "C" void kernel(const kw_tensor*, int, const kw_tensor*, int) {}
"""
needs_all = pytest.mark.skipif(probe_jail().tier != "A", reason="this machine has no tier A")


def cpp(text):
    return Candidate(kind="cpp", sources=(SourceFile(name="k.cpp", text=text),))


@needs_all
@pytest.mark.parametrize("how", ['asm(".incbin \\"{}\\"");', '#include "{}"'])
def test_a_private_file_does_not_get_into_a_kernel(tmp_path, how):
    secret = tmp_path / "secret"
    secret.write_text("static int secret = 1;\n")
    built = BACKENDS["cpp"].build(cpp(how.format(secret) + "\n" + KERNEL), tmp_path / "cache")
    assert isinstance(built, BuildFailure)
    assert "secret" in built.reason


@needs_all
def test_without_the_walls_it_would(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("static int secret = 1;\n")
    source = tmp_path / "build" / "k.cpp"
    source.parent.mkdir()
    source.write_text(f'#include "{secret}"\n')
    status, _ = run_compiler(
        ["/usr/bin/g++", "-c", "k.cpp"],
        source.parent,
        read=[],
        cache=tmp_path,
        jail=NO_JAIL,
        timeout_s=60,
    )
    assert status == 0


@needs_all
def test_the_compiler_writes_nowhere_else(tmp_path):
    note = tmp_path / "note"
    folder = tmp_path / "build"
    folder.mkdir()
    status, log = run_compiler(
        ["/bin/sh", "-c", f"echo mine > here; echo x > {note}"],
        folder,
        read=[],
        cache=tmp_path,
        jail=probe_jail(),
        timeout_s=20,
    )
    assert status != 0, log
    assert (folder / "here").read_text() == "mine\n"
    assert not note.exists()


def test_one_that_never_ends_is_ended_with_all_it_started(tmp_path):
    before = own_children()
    status, _ = run_compiler(
        ["/bin/sh", "-c", "sleep 60 & sleep 60"],
        tmp_path,
        read=[],
        cache=tmp_path,
        jail=probe_jail(),
        timeout_s=0.5,
    )
    assert status is None
    assert own_children() <= before


@needs_all
def test_a_wall_that_cannot_be_put_up_is_the_machines_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.sandbox.launch.COMPILER_NAMESPACES", 1)
    with pytest.raises(SandboxBroke, match="unshare"):
        BACKENDS["cpp"].build(cpp(KERNEL), tmp_path / "cache")
    monkeypatch.undo()
    built = BACKENDS["cpp"].build(cpp(KERNEL), tmp_path / "cache")
    assert isinstance(built, NativeArtefact)  # the failure was not remembered
    assert os.access(built.library, os.R_OK)
