"""How a reference is turned down: one clear line that says what, where and what to do."""

from __future__ import annotations

from typing import NoReturn


def refuse(where: str, what: str, advice: str = "Mend it and try again") -> NoReturn:
    """Raises TaskUnusable; `advice` is a sentence without its full stop."""
    try:
        from kernelwright.core.errors import TaskUnusable
    except ModuleNotFoundError:  # a worker on a machine without pydantic: it reports only the text
        raise RuntimeError(f"{where}: {what}. {advice}.") from None
    raise TaskUnusable(where, what, advice + ".") from None


def one_line(error: BaseException) -> str:
    """The kind of an error and its text, on one line of at most 300 characters."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]
