"""How a reference is turned down: one clear line that says what, where and what to do."""

from __future__ import annotations

from typing import NoReturn


def refuse(where: str, what: str, advice: str = "Mend it and try again") -> NoReturn:
    """Raises TaskUnusable; `advice` is a sentence without its full stop."""
    from kernelwright.core.errors import TaskUnusable  # needs no pydantic, as workers have none

    raise TaskUnusable(where, what, advice + ".") from None


def one_line(error: BaseException) -> str:
    """The kind of an error and its text, on one line of at most 300 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]
