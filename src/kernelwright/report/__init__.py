"""What a Run found, for people: one HTML file that opens offline, Markdown, and JSON.

In: a Run's folder. Out: text; all three formats print one `Facts` record, so their numbers are the
same. No torch: a report opens on a laptop.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.report.facts import Facts, read_facts
    from kernelwright.report.markdown import as_markdown
    from kernelwright.report.page import as_html

__all__ = ["Facts", "as_html", "as_markdown", "read_facts"]

_HOME = {
    "Facts": "facts",
    "read_facts": "facts",
    "as_markdown": "markdown",
    "as_html": "page",
}


def __getattr__(name: str) -> Any:
    """Imports what is asked for: every verb uses the words, one verb the page."""
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
