"""Proposers: where Candidates come from.

In: a `Problem` (a Task, its reference and signature; never a seed or an input) and the Verdicts so
far. Out: Candidates, lazily, most promising first. A new proposer is one class and one entry in
`PROPOSERS`.
"""

from kernelwright.propose.canned import CannedProposer
from kernelwright.propose.protocol import Problem, Proposer
from kernelwright.propose.registry import PROPOSERS, ProposerUnknown, find_proposer

__all__ = ["PROPOSERS", "CannedProposer", "Problem", "Proposer", "ProposerUnknown", "find_proposer"]
