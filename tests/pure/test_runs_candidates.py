"""Candidate folders and files: what can be read, and one clear line for what cannot."""

from __future__ import annotations

import json
import os

import pytest

import records
from kernelwright.core import Candidate, CandidateUnreadable, SourceFile
from kernelwright.runs import read_candidate, write_candidate


@pytest.mark.parametrize(
    ("name", "kind"),
    [("k.cpp", "cpp"), ("k.cc", "cpp"), ("model_new.py", "python"), ("g.json", "graph")],
)
def test_a_single_file_is_a_candidate_by_its_suffix(tmp_path, name, kind):
    (tmp_path / name).write_bytes("text \u00e4\r\n".encode())
    candidate = read_candidate(tmp_path / name)
    assert candidate.kind == kind
    assert candidate.sources == (SourceFile(name=name, text="text \u00e4\r\n"),)


def test_a_folder_or_its_manifest_is_a_candidate(tmp_path):
    candidate = records.candidate()
    write_candidate(candidate, tmp_path / "c")
    assert read_candidate(tmp_path / "c") == candidate
    assert read_candidate(tmp_path / "c" / "candidate.json") == candidate


def test_a_source_may_not_take_the_manifests_name(tmp_path):
    source = SourceFile(name="candidate.json", text="{}")
    with pytest.raises(CandidateUnreadable, match="may not be called"):
        write_candidate(Candidate(kind="graph", sources=(source,)), tmp_path / "c")
    assert not list(tmp_path.iterdir())


def _manifest(folder, **fields):
    folder.mkdir()
    (folder / "k.cpp").write_text("int x;")
    (folder / "candidate.json").write_text(
        json.dumps({"kind": "cpp", "sources": ["k.cpp"], **fields})
    )


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"kind": "fortran"}, "kind: Input should be 'cpp'"),
        ({"novelty": 1}, "novelty: Extra inputs"),
        ({"sources": []}, 'no list "sources"'),
        ({"sources": "k.cpp"}, 'no list "sources"'),
        ({"sources": ["k.cpp", "k.cpp"]}, "two sources share a name"),
        ({"sources": ["missing.cpp"]}, "missing.cpp: there is no such file"),
        ({"sources": ["../secret"]}, "'../secret' is no plain file name"),
        ({"sources": ["/etc/passwd"]}, "'/etc/passwd' is no plain file name"),
        ({"sources": [7]}, "7 is no plain file name"),
    ],
)
def test_a_wrong_manifest_is_one_clear_line(tmp_path, fields, what):
    (tmp_path / "secret").write_text("secret")
    _manifest(tmp_path / "c", **fields)
    with pytest.raises(CandidateUnreadable) as caught:
        read_candidate(tmp_path / "c")
    text = str(caught.value)
    assert what in text
    assert "\n" not in text
    assert text.endswith("A candidate is a folder with candidate.json, or a .cpp, .cu or .py file.")


def test_what_is_no_candidate_at_all(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "stray").mkdir()
    (tmp_path / "stray" / "k.cpp").write_text("int x;")
    (tmp_path / "k.f90").write_text("end")
    (tmp_path / "binary.cpp").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "big.cpp").write_bytes(b" " * (5 << 20))
    os.mkfifo(tmp_path / "pipe.cpp")
    for name, what in {
        "nowhere": "there is no such file or folder",
        "empty": "it is empty",
        "stray": "it holds k.cpp and no candidate.json",
        "k.f90": "the suffix '.f90' names no kind",
        "binary.cpp": "it is no UTF-8 text",
        "big.cpp": "it is over 4 MiB",
        "pipe.cpp": "there is no such file",
    }.items():
        with pytest.raises(CandidateUnreadable) as caught:
            read_candidate(tmp_path / name)
        assert what in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_a_manifest_that_is_no_json_object(tmp_path, text):
    (tmp_path / "candidate.json").write_text(text)
    with pytest.raises(CandidateUnreadable, match=r"no JSON|no list"):
        read_candidate(tmp_path)
