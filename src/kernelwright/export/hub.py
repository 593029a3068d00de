"""Writes the winner of a Run as a folder that Hugging Face's `kernels` package loads.

Layout: `build/<variant>/` with the module, its library and `metadata.json`, as kernel-builder makes
it (huggingface.co/docs/kernels). The library calls no torch function, so the variant of torch's
stable ABI holds: every torch from the one here on may load it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import shutil
from importlib.metadata import version
from pathlib import Path

from kernelwright.core.verdict import Verdict
from kernelwright.export.package import Package, build_package, package_name
from kernelwright.export.winner import ExportImpossible, find_winner
from kernelwright.runs import RunFolder


def export_hub(run: RunFolder, folder: Path) -> tuple[Path, Verdict]:
    """Writes the Run's winner into `folder`, which must not exist.

    Returns:
        The folder, and the Verdict it carries.

    Raises:
        CompilerMissing, ExportImpossible, TaskUnusable: as `export_wheel` does.
    """
    winner = find_winner(run)
    if folder.exists():
        raise ExportImpossible(str(folder), "it exists", "Name a new folder.")
    package = build_package(winner)
    package.require_sound()
    files = {name: data for name, data in package.files.items() if name != "__main__.py"}
    files["metadata.json"] = _metadata(package_name(winner), files)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    home = partial / "build" / _variant(package)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        home.mkdir(parents=True)
        for name, data in files.items():
            (home / name).write_bytes(data)
        partial.rename(folder)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise ExportImpossible(str(folder), error.strerror or "", "Choose another place.") from None
    return folder, winner.verdict


def _variant(package: Package) -> str:
    if not package.native:
        return "torch-cpu"
    major, minor = version("torch").split(".")[:2]
    return f"torch-stable-abi{major}{minor}-cpu-{platform.machine()}-linux"


def _metadata(name: str, files: dict[str, bytes]) -> bytes:
    digests = {
        path: base64.b64encode(hashlib.sha256(data).digest()).decode()
        for path, data in sorted(files.items())
    }
    identity = hashlib.sha256(json.dumps(digests).encode()).hexdigest()[:12]
    fields = {
        "id": f"_{name}_{identity}",
        "name": name.replace("_", "-"),
        "version": 1,
        "license": "other",  # that of the reference inside, which nobody here knows
        "backend": {"type": "cpu"},
        "python-depends": [],
        "digest": {"algorithm": "sha256", "files": digests},
    }
    return (json.dumps(fields, indent=2) + "\n").encode()
