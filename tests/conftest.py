"""Makes this folder importable (`import records`, `import program`) and keeps builds together."""

from __future__ import annotations

import os
from pathlib import Path

# Not the user's own cache; kept from one run of the tests to the next, since a cold torch.compile
# costs 20 s.
os.environ.setdefault(
    "KERNELWRIGHT_CACHE", str(Path(__file__).resolve().parents[1] / "build" / "test-cache")
)
