"""The documentation's blocks run, in the order in which a reader meets them."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright.cli.app import app

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIAL = (DOCS / "tutorial.md").read_text()
_FILE = re.compile(
    r"^```\{code-block\} python\n:caption: (\S+)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL
)
_BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def blocks(text: str, kind: str) -> list[str]:
    return [body for found, body in _BLOCK.findall(text) if found == kind]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def write_files(folder: Path) -> None:
    for name, text in _FILE.findall(TUTORIAL):
        (folder / name).write_text(text.lstrip())


@pytest.mark.serial
def test_the_tutorial_ends_with_a_faster_model(tmp_path):
    write_files(tmp_path)
    script = "set -e\n" + "\n".join(blocks(TUTORIAL, "sh"))
    ran = run(["bash", "-c", script], tmp_path)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "verified win" in ran.stdout
    assert re.search(r"the kernel ran \d\d times, the reference in its place 0 times", ran.stdout)
    gain = re.search(r"whole model: ([\d.]+)x", ran.stdout)
    assert gain is not None
    print(f"whole model of the tutorial: {gain[1]}x")


@pytest.mark.serial
def test_the_python_examples_run_in_order(tmp_path):
    write_files(tmp_path)
    script = tmp_path / "examples.py"
    script.write_text("\n".join(blocks((DOCS / "api.md").read_text(), "python")))
    ran = run([sys.executable, str(script)], tmp_path)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert "did you mean 'softmax'" in ran.stdout


def test_every_public_name_has_an_example():
    import kernelwright

    assert len(kernelwright.__all__) <= 10
    examples = "\n".join(blocks((DOCS / "api.md").read_text(), "python"))
    for name in set(kernelwright.__all__) - {"Verdict"}:
        assert re.search(rf"\b{name}\b[.(]|except {name}", examples), name
    assert "verdict.outcome" in examples, "a Verdict is made by the judge alone"


def test_the_other_python_blocks_run():
    for text in blocks((DOCS / "cli.md").read_text(), "python"):
        exec(compile(text, "cli.md", "exec"), {})


def test_every_verb_is_in_the_table_of_commands():
    table = (DOCS / "cli.md").read_text()
    verbs = [name for name in app if not name.startswith("-")]
    assert len(verbs) >= 8
    for verb in verbs:
        assert f"`{verb}" in table, verb


@pytest.mark.skipif(
    importlib.util.find_spec("sphinx") is None,
    reason="sphinx is not installed: pip install .[docs]",
)
def test_the_site_builds_without_a_warning(tmp_path):
    ran = run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(DOCS), str(tmp_path)],
        tmp_path,
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "tutorial.html").exists()
