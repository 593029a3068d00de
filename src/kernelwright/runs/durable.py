"""Writing that survives a kill, and what to tell the user when it fails."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from kernelwright.core.errors import RunFolderUnusable


def write_durably(path: Path, text: str) -> None:
    """Writes the whole text, on disk when this returns; line ends stay as they are."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def explaining(path: Path) -> Generator[None]:
    """Turns an OSError into the user's error, with the path and what to do."""
    try:
        yield
    except FileExistsError:
        raise RunFolderUnusable(
            str(path), "it exists already", "Name another --runs folder."
        ) from None
    except OSError as error:
        what = error.strerror or str(error)
        raise RunFolderUnusable(
            str(path), f"it cannot be written ({what})", "Choose another --runs folder."
        ) from None
