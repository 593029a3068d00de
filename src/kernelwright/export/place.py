"""Writes one new file; what is there already stays."""

from __future__ import annotations

from pathlib import Path

from kernelwright.export.winner import ExportImpossible


def require_free(target: Path) -> None:
    """Raises ExportImpossible if the file exists or its folder does not."""
    if target.exists():
        raise ExportImpossible(str(target), "it exists", "Choose another name.")
    if not target.parent.is_dir():
        raise ExportImpossible(str(target.parent), "there is no such folder", "Make it first.")


def write_new(target: Path, content: bytes) -> None:
    """Writes it whole or not at all; raises ExportImpossible if it exists or cannot be written."""
    try:
        file = target.open("xb")
    except FileExistsError:
        raise ExportImpossible(str(target), "it exists", "Choose another name.") from None
    except OSError as error:
        raise ExportImpossible(str(target), error.strerror or "", "Choose another place.") from None
    try:
        with file:
            file.write(content)
    except OSError as error:
        target.unlink()
        raise ExportImpossible(str(target), error.strerror or "", "Make room.") from None
