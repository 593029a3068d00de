"""A run's winner as a folder of Hugging Face's `kernels`, loaded back by that package."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import sys

import pytest
from winners import TASK, won_run

import program
from kernelwright.export import ExportImpossible, export_hub

LOAD = """
import sys; sys.modules["kernelwright"] = None
import torch
from kernels import get_local_kernel
from pathlib import Path
k = get_local_kernel(Path(sys.argv[1]))
torch.set_grad_enabled(False)
mine = k.ModelNew(33)
mine(torch.randn(8, 33), 2.0)
print(k.KERNEL.calls, k.KERNEL.fallbacks, k.main())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("hub")
    (home / "task.py").write_text(TASK)
    run = won_run(home)
    ran = program.run("export", run.path, "--format", "hf", "-o", home / "out", "--json")
    assert ran.status == 0, ran.err
    with pytest.raises(ExportImpossible, match="it exists"):
        export_hub(run, home / "out")
    return home / "out"


def test_its_metadata_names_every_file_by_its_hash(folder):
    (variant,) = (folder / "build").iterdir()
    metadata = json.loads((variant / "metadata.json").read_text())
    assert metadata["backend"] == {"type": "cpu"}
    listed = metadata["digest"]["files"]
    assert set(listed) == {path.name for path in variant.iterdir()} - {"metadata.json"}
    for name, digest in listed.items():
        data = (variant / name).read_bytes()
        assert base64.b64decode(digest) == hashlib.sha256(data).digest()


@pytest.mark.skipif(
    importlib.util.find_spec("kernels") is None, reason="kernels comes with the extra hub"
)
def test_the_real_package_loads_it_and_its_kernel_runs(folder, tmp_path):
    nowhere = {"PATH": "/nonexistent", "XDG_CACHE_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    ran = program.run(str(folder), first=(sys.executable, "-c", LOAD), **nowhere)
    assert ran.status == 0, ran.err
    assert ran.out.splitlines()[-1].startswith("1 0 0")
    assert "right; " in ran.out
