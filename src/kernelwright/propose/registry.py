"""The proposers by name; each entry makes one from nothing."""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.core.errors import KernelwrightError
from kernelwright.propose.protocol import Proposer
from kernelwright.propose.search.proposer import SearchProposer

PROPOSERS: dict[str, Callable[[], Proposer]] = {"search": SearchProposer}


class ProposerUnknown(KernelwrightError):
    """No proposer has that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"no proposer {name!r}: choose one of {', '.join(sorted(PROPOSERS))}")


def find_proposer(name: str) -> Callable[[], Proposer]:
    """What makes the proposer of that name.

    Raises:
        ProposerUnknown: there is none.
    """
    if name not in PROPOSERS:
        raise ProposerUnknown(name)
    return PROPOSERS[name]
