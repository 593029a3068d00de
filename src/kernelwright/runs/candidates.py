"""Candidate folders: `candidate.json` beside the sources."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernelwright.core.candidate import Candidate, CandidateKind
from kernelwright.core.errors import CandidateUnreadable
from kernelwright.runs.durable import write_durably

_MANIFEST = "candidate.json"
_KIND_OF: dict[str, CandidateKind] = {
    ".cpp": "cpp",
    ".cc": "cpp",
    ".cu": "cuda",
    ".py": "python",
    ".json": "graph",
}
_MAX_SOURCE_BYTES = 4 << 20


def read_candidate(path: Path) -> Candidate:
    """Reads a candidate folder (or its manifest), or a single `.cpp`, `.cu`, `.py` or `.json` file.

    Raises:
        CandidateUnreadable: nothing there, an empty folder, a manifest or source that is no text.
    """
    if path.is_dir():
        return _read_folder(path)
    if not path.exists():
        raise CandidateUnreadable(str(path), "there is no such file or folder")
    if path.name == _MANIFEST:
        return _read_folder(path.parent)
    kind = _KIND_OF.get(path.suffix)
    if kind is None:
        raise CandidateUnreadable(str(path), f"the suffix {path.suffix!r} names no kind")
    source = {"name": path.name, "text": _text(path)}
    return _make(path, {"kind": kind, "sources": [source]})


def write_candidate(candidate: Candidate, folder: Path) -> None:
    """Writes the folder whole or not at all; an existing one of that name is left as it is.

    Raises:
        CandidateUnreadable: a source has the manifest's name.
        OSError: it cannot be written.
    """
    names = [source.name for source in candidate.sources]
    if _MANIFEST in names:
        raise CandidateUnreadable(str(folder), f"a source may not be called {_MANIFEST}")
    if folder.exists():
        return
    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        for source in candidate.sources:
            write_durably(partial / source.name, source.text)
        manifest = candidate.model_dump(exclude={"sources"}) | {"sources": names}
        write_durably(partial / _MANIFEST, json.dumps(manifest, indent=2) + "\n")
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        if not folder.exists():  # else another writer was first with the same content
            raise


def _read_folder(folder: Path) -> Candidate:
    path = folder / _MANIFEST
    if not path.is_file():
        found = sorted(p.name for p in folder.iterdir())
        what = f"it holds {', '.join(found[:4])} and no {_MANIFEST}" if found else "it is empty"
        raise CandidateUnreadable(str(folder), what)
    try:
        manifest = json.loads(_text(path))
    except ValueError as error:
        raise CandidateUnreadable(str(path), f"it is no JSON: {error}") from None
    names = manifest.get("sources") if isinstance(manifest, dict) else None
    if not isinstance(names, list) or not names:
        raise CandidateUnreadable(str(path), 'it has no list "sources"')
    sources = [{"name": name, "text": _text(_inside(folder, name))} for name in names]
    return _make(path, {**manifest, "sources": sources})


def _inside(folder: Path, name: Any) -> Path:
    """The file of that name in the folder itself: a manifest may not reach elsewhere."""
    if not isinstance(name, str) or Path(name).name != name:
        raise CandidateUnreadable(str(folder), f"the source {name!r} is no plain file name")
    return folder / name


def _make(path: Path, fields: dict[str, Any]) -> Candidate:
    try:
        return Candidate.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CandidateUnreadable(str(path), f"{where}: {first['msg']}".lstrip(": ")) from None


def _text(path: Path) -> str:
    if not path.is_file():  # a pipe or a device would never end
        raise CandidateUnreadable(str(path), "there is no such file")
    try:
        if path.stat().st_size > _MAX_SOURCE_BYTES:
            raise CandidateUnreadable(str(path), f"it is over {_MAX_SOURCE_BYTES >> 20} MiB")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        raise CandidateUnreadable(str(path), "it is no UTF-8 text") from None
    except OSError as error:
        raise CandidateUnreadable(str(path), f"it cannot be read ({error.strerror})") from None
