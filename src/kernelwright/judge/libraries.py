"""Which code a Candidate runs, seen by looking at its worker at random moments.

Statistical profiling from outside (Graham, Kessler, McKusick: gprof, SIGPLAN 1982, with whole
stacks): the worker is stopped inside a call that no one times and that looks like any other to it.
Nothing is read from a Candidate's text, and nothing that it says is believed. A share of s of the
time is missed by n looks with probability (1 - s)^n.
"""

from __future__ import annotations

import fnmatch
import functools
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

import numpy as np
import torch

from kernelwright.core.verdict import LibraryUse, Share
from kernelwright.sandbox import CodeMap, Worker, symbols_of

_STACK_BYTES = 64 << 10
"""Of each stack, from its top: a vendor GEMM keeps tens of kilobytes of blocks there."""
_LIBRARY = "libtorch_cpu.so"
"""Where the operators' dispatch functions are."""
_OPERATOR = re.compile(r"^_ZN2at4_ops(\d+)(\w+)$")
_LENGTH = re.compile(r"\d+")
_LISTED = 8
_FEWEST, _LEAST_SHARE = 3, 0.05
"""Looks, and share of them, from which on a forbidden operator was called for its work: a word left
over on the stack from an earlier call is no evidence."""


class LibraryTrace:
    """What the looks at one worker have found so far."""

    def __init__(self) -> None:
        self._looks = 0
        self._code: Counter[tuple[str, int, int]] = Counter()
        self._operators: Counter[str] = Counter()

    def see(self, worker: Worker) -> None:
        """Takes one look at a worker that stands still inside a call."""
        threads = worker.threads_at()
        mapped = worker.code_map()
        running = [thread.pc for thread in threads if thread.running]
        if not running or not mapped.files:
            return
        self._looks += 1
        at, offsets = mapped.find(np.array(running, dtype=np.uint64))
        for where, offset in zip(at, offsets, strict=True):
            path, inode = mapped.files[where] if where >= 0 else ("", 0)
            self._code[path, inode, int(offset)] += 1
        stacks = (worker.read_stack(thread.sp, _STACK_BYTES) for thread in threads)
        self._operators.update(_operators_on(stacks, mapped))

    def forbidden(self, patterns: Sequence[str]) -> str | None:
        """What a Task forbids and this worker did, in words; None where there is nothing."""
        for name, seen in self._operators.most_common():
            share = seen / self._looks
            banned = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
            if banned and seen >= _FEWEST and share >= _LEAST_SHARE:
                return (
                    f"it calls {name}, which the task forbids: {share:.0%} of {self._looks} looks "
                    "into its calls found it there"
                )
        return None

    def result(self) -> LibraryUse | None:
        """The record for the Verdict; None where no look found the worker at work."""
        if self._looks == 0:
            return None
        total = sum(self._code.values())
        objects: Counter[str] = Counter()
        functions: Counter[str] = Counter()
        for (path, inode, offset), count in self._code.items():
            objects[_object_name(path)] += count
            name = symbols_of(path, inode).name_at(offset) if path else ""
            functions[name] += count if name else 0
        named = [(name, count) for name, count in functions.most_common(_LISTED) if count]
        readable = _demangled([name for name, _ in named])
        return LibraryUse(
            looks=self._looks,
            objects=_shares(objects.most_common(_LISTED), total),
            functions=_shares(zip(readable, (n for _, n in named), strict=True), total),
            operators=_shares(self._operators.most_common(_LISTED), self._looks),
        )


def _shares(counts: Iterable[tuple[str, int]], total: int) -> tuple[Share, ...]:
    return tuple(Share(name=name, share=round(count / total, 3)) for name, count in counts)


def _object_name(path: str) -> str:
    """A file's last part, printable and short: the worker may have chosen it."""
    name = PurePosixPath(path).name if path else "code in no file"
    return "".join(c if c.isprintable() else "?" for c in name)[:60]


def _operators_on(stacks: Iterable[bytes], mapped: CodeMap) -> set[str]:
    """ATen operators whose dispatch functions have a return address on one of the stacks."""
    library = next((f for f in mapped.files if PurePosixPath(f[0]).name == _LIBRARY), None)
    if library is None:
        return set()
    found: set[str] = set()
    # One more at the end, for the index -1 of a word that points into no mapping.
    of_library = np.array([*(file == library for file in mapped.files), False])
    for stack in stacks:
        words = np.frombuffer(stack[: len(stack) // 8 * 8], dtype=np.uint64)
        at, offsets = mapped.find(words)
        for offset in np.unique(offsets[of_library[at]]):
            operator = _operator_at(*library, int(offset))
            if operator:
                found.add(operator)
    return found


@functools.lru_cache(maxsize=1 << 16)
def _operator_at(path: str, inode: int, offset: int) -> str:
    """`softmax` for an offset in `at::_ops::softmax_int::call`; empty for any other function."""
    match = _OPERATOR.match(symbols_of(path, inode).name_at(offset))
    if match is None:
        return ""
    length, rest = int(match[1]), match[2]
    return _operator_names().get(rest[:length], rest[:length])


@functools.cache
def _operator_names() -> dict[str, str]:
    """Of the struct that torchgen makes for each overload, the operator's own name."""
    names = [name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names()]
    return {name.replace(".", "_"): name.partition(".")[0] for name in names}


def _demangled(names: list[str]) -> list[str]:
    """C++ names without their template arguments and parameters; as they are without c++filt."""
    tool = shutil.which("c++filt")
    if tool and names:
        text = "\n".join(names)
        done = subprocess.run([tool], input=text, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        names = lines if len(lines) == len(names) else names
    return [_short(name) for name in names]


def _short(name: str) -> str:
    if name.startswith("_ZN"):
        return "::".join(_identifiers(name)) or name[:80]
    name = name.replace("(anonymous namespace)::", "").removeprefix("void ")
    return re.split(r"[<(]", name, maxsplit=1)[0].strip()[:80] or name[:80]


def _identifiers(mangled: str) -> list[str]:
    """The leading plain names of a nested name; all that is readable where c++filt gives up."""
    parts, at = [], len("_ZN")
    while found := _LENGTH.match(mangled, at):
        at = found.end() + int(found[0])
        parts.append(mangled[found.end() : at])
    return parts
