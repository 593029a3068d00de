"""Keeps modules readable: warns above 300 lines, fails above 400."""

from __future__ import annotations

import sys
from pathlib import Path

WARN_LINES, FAIL_LINES = 300, 400


def main(folders: list[str]) -> int:
    """Checks every Python and C file below the folders; returns the exit status."""
    too_long = 0
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if path.suffix not in (".py", ".c", ".h", ".cpp"):
                continue
            lines = len(path.read_text().splitlines())
            if lines > FAIL_LINES:
                too_long += 1
                print(f"{path}: {lines} lines; split it, {FAIL_LINES} is the limit")
            elif lines > WARN_LINES:
                print(f"{path}: {lines} lines; warning, aim at {WARN_LINES}")
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
