"""Candidate: what is proposed instead of the reference, named by the hash of its content."""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from pydantic import Field, model_validator

from kernelwright.core.record import Record

CandidateKind = Literal["cpp", "cuda", "graph", "python", "triton"]


class SourceFile(Record):
    """One file of a Candidate: a relative name and its text."""

    name: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.\-]*$")
    text: str


class Candidate(Record):
    """Sources plus what is needed to build them.

    `cpp`: C++ files, one of which defines the `entry` symbol of the C ABI in `kernelwright.h`.
    `cuda`: `.cu` files, one of which defines the `entry` symbol of `kernelwright_cuda.h`.
    `graph`: one JSON file, a list of ATen calls.
    `triton`: one Python file whose `entry` takes inputs and outputs and launches Triton kernels.
    `python`: one file that defines `ModelNew` (KernelBench's submission format).
    """

    kind: CandidateKind
    sources: tuple[SourceFile, ...] = Field(min_length=1)
    entry: str = "kernel"
    """The symbol a worker calls. `graph` and `python` ignore it."""
    idea: str = ""
    """One line for people: what this Candidate tries. Not part of the identity."""
    parent: str | None = None
    """Identity of the Candidate this one was derived from. Not part of the identity."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> Candidate:
        names = [source.name for source in self.sources]
        if len(set(names)) != len(names):
            raise ValueError("two sources share a name")
        return self

    @property
    def id(self) -> str:
        """First 12 hex digits of the SHA-256 of kind, entry and sources."""
        content = [self.kind, self.entry, sorted((s.name, s.text) for s in self.sources)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
