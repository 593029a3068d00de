"""Where Tasks come from.

In: a name, a file or a class. Out: a `core.Task`, its live `Reference`, the `Signature` of what a
call reads and writes, and fresh draws of every slot. Workers import `reference`, `slots` and
`bind`, so those need neither pydantic nor anything above this room. The names load on first use:
torch costs seconds.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "FAMILIES": "draw",
    "Drawer": "draw",
    "Reference": "reference",
    "ReferenceSpec": "spec",
    "Signature": "slots",
    "builtin_names": "catalog",
    "describe": "catalog",
    "find_task": "catalog",
    "load_reference": "reference",
    "read_signature": "slots",
    "reference_spec": "catalog",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
