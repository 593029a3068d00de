"""`triton` Candidates: one Python file whose entry launches Triton kernels.

    def kernel(inputs, outputs): ...

`inputs` are the Task's slots in order, `outputs` freshly allocated tensors of the sizes and strides
that the reference returns. Triton compiles at the first launch, in the Candidate's worker, into a
cache that only this Candidate's workers share. `inspect_triton` compiles the same launches where
there is no device.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from kernelwright.backends.artefact import Artefact, BuildFailure, KernelFacts, PythonArtefact
from kernelwright.backends.cached import TOOK_TOO_LONG, first_error
from kernelwright.backends.nvcc import read_facts, target_architecture
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CompilerMissing
from kernelwright.sandbox import TensorLayout, probe_jail, run_compiler

_PROGRAM = Path(__file__).with_name("triton_program.py")
_TIMEOUT_S = 120.0


class TritonBackend:
    """Puts the file where a worker can load it. It is not imported here, only parsed."""

    kind = "triton"
    devices: tuple[str, ...] = ("cuda",)
    locked_up = True

    def build(self, candidate: Candidate, cache: Path) -> Artefact | BuildFailure:
        """See `Backend.build`."""
        failure = _refuse(candidate)
        if failure is not None:
            return failure
        folder = cache / "triton" / candidate.id
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / candidate.sources[0].name
        path.write_text(candidate.sources[0].text)
        return PythonArtefact(
            "kernelwright.backends.cuda_arms:launcher",
            {"path": str(path), "symbol": candidate.entry},
            reads=(path,),
        )


def inspect_triton(
    candidate: Candidate,
    cache: Path,
    *,
    inputs: Sequence[TensorLayout],
    outputs: Sequence[TensorLayout],
) -> tuple[KernelFacts, ...] | BuildFailure:
    """Compiles every kernel that the entry launches on such tensors, for the target architecture.

    Args:
        candidate: a `triton` one.
        cache: of our own programs.
        inputs: dtype, shape and strides of each; addresses are ignored and taken for aligned.
        outputs: the same.

    Returns:
        One record per launch, as the assembler reports it.

    Raises:
        CompilerMissing: Triton is not installed.
    """
    failure = _refuse(candidate)
    if failure is not None:
        return failure
    if importlib.util.find_spec("triton") is None:
        raise CompilerMissing("triton", "triton (pip install 'kernelwright[triton]')")
    with tempfile.TemporaryDirectory(prefix="kernelwright-build-") as name:
        folder = Path(name)
        (folder / "candidate.py").write_text(candidate.sources[0].text)
        spec = {"inputs": [asdict(t) for t in inputs], "outputs": [asdict(t) for t in outputs]}
        (folder / "spec.json").write_text(json.dumps(spec))
        return _inspect(folder, candidate.entry, cache)


def _inspect(folder: Path, entry: str, cache: Path) -> tuple[KernelFacts, ...] | BuildFailure:
    capability = target_architecture().removeprefix("sm_").rstrip("a")
    command = [sys.executable, "-I", str(_PROGRAM), "candidate.py", entry, "spec.json", capability]
    status, log = run_compiler(
        [*command, "out.json"],
        folder,
        read=[
            _PROGRAM,
            Path(sys.prefix),
            Path(sys.base_prefix),
            *map(Path, filter(None, sys.path)),
        ],
        cache=cache,
        jail=probe_jail(),
        timeout_s=_TIMEOUT_S,
    )
    if status is None:
        return BuildFailure(f"{TOOK_TOO_LONG} {_TIMEOUT_S:g} s", log)
    made = folder / "out.json"
    if status != 0 or not made.exists():
        return BuildFailure(_reason(log, status), log)
    answer = json.loads(made.read_text())
    facts = []
    for one, found in zip(answer["kernels"], read_facts(answer["log"], ""), strict=True):
        wgmma = one["ptx"].count("wgmma.mma_async")
        facts.append(replace(found, shared_bytes=one["shared"], wgmma=wgmma))
    return tuple(facts)


def _refuse(candidate: Candidate) -> BuildFailure | None:
    if len(candidate.sources) != 1 or not candidate.sources[0].name.endswith(".py"):
        return BuildFailure("a triton candidate is one .py file")
    source = candidate.sources[0]
    try:
        tree = ast.parse(source.text, source.name)
    except (SyntaxError, ValueError) as error:
        return BuildFailure(f"{source.name}: {error}")
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if candidate.entry not in names:
        return BuildFailure(f"{source.name} defines no function {candidate.entry}")
    return None


def _reason(log: str, status: int) -> str:
    """Python's last line is the error; a compiler's is the first that says so."""
    lines = [line for line in log.strip().splitlines() if line.strip()]
    last = lines[-1].strip()[:300] if lines else ""
    return last if "Error" in last else first_error(log, status)
