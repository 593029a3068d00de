"""The proposers by name; each entry makes one from nothing."""

from __future__ import annotations

from collections.abc import Callable

from kernelwright.propose.protocol import Proposer
from kernelwright.propose.search.proposer import SearchProposer

PROPOSERS: dict[str, Callable[[], Proposer]] = {"search": SearchProposer}
