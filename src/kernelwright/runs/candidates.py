"""Candidate folders: `candidate.json` beside the sources."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from pydantic import ValidationError

from kernelwright.core.candidate import Candidate, CandidateKind, SourceFile
from kernelwright.core.errors import CandidateUnreadable

_MANIFEST = "candidate.json"
_KIND_OF: dict[str, CandidateKind] = {
    ".cpp": "cpp",
    ".cc": "cpp",
    ".py": "python",
    ".json": "graph",
}
_MAX_SOURCE_BYTES = 4 << 20


def read_candidate(path: Path) -> Candidate:
    """Reads a candidate folder, or a single `.cpp`, `.py` or `.json` file.

    Raises:
        CandidateUnreadable: nothing there, an empty folder, a manifest or source that is no text.
    """
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise CandidateUnreadable(str(path), "there is no such file or folder")
    kind = _KIND_OF.get(path.suffix)
    if kind is None:
        raise CandidateUnreadable(str(path), f"the suffix {path.suffix!r} names no kind")
    return _make(path, {"kind": kind, "sources": [path.name]}, path.parent)


def write_candidate(candidate: Candidate, folder: Path) -> None:
    """Writes the folder whole or not at all; an existing one of that name is left as it is."""
    if folder.exists():
        return
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for source in candidate.sources:
        (partial / source.name).write_text(source.text)
    manifest = candidate.model_dump(exclude={"sources"}) | {
        "sources": [source.name for source in candidate.sources]
    }
    (partial / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    partial.rename(folder)


def _read_folder(folder: Path) -> Candidate:
    path = folder / _MANIFEST
    if not path.is_file():
        found = sorted(p.name for p in folder.iterdir())
        what = f"it holds {', '.join(found[:4])} and no {_MANIFEST}" if found else "it is empty"
        raise CandidateUnreadable(str(folder), what)
    try:
        manifest = json.loads(path.read_text())
    except (ValueError, OSError) as error:
        raise CandidateUnreadable(str(path), f"it is no JSON: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("sources"), list):
        raise CandidateUnreadable(str(path), 'it has no list "sources"')
    return _make(path, manifest, folder)


def _make(path: Path, manifest: dict[str, object], folder: Path) -> Candidate:
    names = manifest["sources"]
    assert isinstance(names, list)
    try:
        sources = [SourceFile(name=str(name), text=_text(folder / str(name))) for name in names]
        return Candidate.model_validate({**manifest, "sources": sources})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CandidateUnreadable(str(path), f"{where}: {first['msg']}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CandidateUnreadable(str(path), f"a source cannot be read: {error}") from None


def _text(path: Path) -> str:
    if path.stat().st_size > _MAX_SOURCE_BYTES:
        raise CandidateUnreadable(str(path), f"it is over {_MAX_SOURCE_BYTES >> 20} MiB")
    return path.read_text()
