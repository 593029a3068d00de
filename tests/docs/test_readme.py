"""What the README tells people to type works, and what it names exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
MAKE_VARIABLES = set(re.findall(r"^(\w+) \?=", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))


def _commands(first_word: str) -> list[list[str]]:
    text = "\n".join(block for _, block in BLOCKS) + "\n" + "\n".join(re.findall("`(.*?)`", README))
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [words for words in lines if words and words[0] == first_word]


@pytest.mark.parametrize("script", [block for kind, block in BLOCKS if kind == "sh"])
def test_the_shell_blocks_run(script, tmp_path):
    script = script.replace(". .venv/bin/activate", "set -e")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "softmax" in ran.stdout


def test_there_are_shell_blocks_and_commands_to_check():
    assert "sh" in [kind for kind, _ in BLOCKS]
    assert len(_commands("make")) >= 6
    assert len(_commands("kernelwright")) >= 6


@pytest.mark.parametrize("words", _commands("make"), ids=" ".join)
def test_the_make_targets_and_variables_exist(words):
    makefile = (ROOT / "Makefile").read_text()
    for word in words[1:]:
        if re.fullmatch(r"[a-z-]+", word):
            assert re.search(rf"^{word}:", makefile, flags=re.MULTILINE), word
            break
    for name in re.findall(r"\b([A-Z_]+)=", " ".join(words)):
        assert name in MAKE_VARIABLES


@pytest.mark.parametrize("words", _commands("kernelwright"), ids=" ".join)
def test_the_commands_parse(words):
    app.parse_args(words[1:], exit_on_error=False, print_error=False)


def test_the_files_and_rooms_it_names_exist():
    for path in re.findall(r"\]\((.*?)\)", README):
        assert (ROOT / path).exists(), path
    layout = next(block for _, block in BLOCKS if block.startswith("src/kernelwright/"))
    named = re.findall(r"^  (\w+)/", layout, flags=re.MULTILINE)
    rooms = [path.parent.name for path in (ROOT / "src/kernelwright").glob("*/__init__.py")]
    assert sorted(named) == sorted(rooms)
