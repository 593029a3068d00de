"""Writes the winner of a Run as one Python file that needs torch and a compiler, nothing else."""

from __future__ import annotations

from pathlib import Path
from pprint import pformat
from typing import Any

import torch

from kernelwright.backends.graph_program import parse
from kernelwright.backends.graph_text import as_python
from kernelwright.backends.toolchain import FLAGS, INCLUDE, LINK_FLAGS
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.verdict import Verdict
from kernelwright.runs import RunFolder
from kernelwright.sandbox.wire import DTYPES
from kernelwright.tasks.catalog import reference_spec, require_unchanged
from kernelwright.tasks.loading import import_target
from kernelwright.tasks.reference import Reference, load_reference
from kernelwright.tasks.slots import Signature, read_signature
from kernelwright.tasks.tensors import flatten_outputs


class ExportImpossible(KernelwrightError):
    """The Run has no winner of a kind that this format can hold, or the file is in the way."""

    def __init__(self, where: str, what: str, advice: str) -> None:
        super().__init__(f"{where}: {what}. {advice}")


def export_file(run: RunFolder, target: Path) -> Verdict:
    """Writes the Run's winner to `target`, a new `.py` file that defines `ModelNew`.

    Returns:
        The Verdict that the file carries.

    Raises:
        ExportImpossible: no win, a kind that does not fit into one file, or `target` exists.
        TaskUnusable: the reference changed since it was judged.
    """
    verdict = run.best()
    if verdict is None:
        more = f"Go on with kernelwright optimize --resume {run.path}."
        raise ExportImpossible(str(run.path), "it has no verified win", more)
    candidate = run.load_candidate(verdict.candidate)
    if candidate.kind == "python":
        what = "the winner is itself a Python file with ModelNew"
        where = run.candidate_path(candidate.id) / candidate.sources[0].name
        raise ExportImpossible(str(run.path), what, f"Copy {where}.")
    require_unchanged(run.record.task)
    spec = reference_spec(run.record.task)
    if spec.kind != "file":
        what = "the task is a class without get_inputs()"
        raise ExportImpossible(spec.target, what, "Write a task file with Model and get_inputs().")
    reference = load_reference(spec)
    text = _render(reference, candidate, verdict)
    try:
        with target.open("x") as file:
            file.write(text)
    except FileExistsError:
        raise ExportImpossible(str(target), "it exists", "Choose another name.") from None
    except OSError as error:
        raise ExportImpossible(str(target), error.strerror or "", "Choose another place.") from None
    return verdict


def _render(reference: Reference, candidate: Candidate, verdict: Verdict) -> str:
    signature = read_signature(reference, reference.default_shape)
    if any(slot.role == "state" for slot in signature.slots):
        what = "forward writes a buffer"
        raise ExportImpossible(reference.spec.target, what, "That does not fit into one file yet.")
    facts = {
        "slots": _patterns(reference, signature),
        "scalars": _scalars(reference),
        "domain": reference.domain,
        "training": _mode_that_matters(reference),
    }
    source = Path(str(import_target(reference.spec.target).__file__)).read_text()
    arguments = "".join(f"    {name}={pformat(value)},\n" for name, value in facts.items())
    engine, made = _native(candidate) if candidate.kind == "cpp" else _traced(candidate)
    return "\n".join(
        [
            f'"""{_headline(candidate, verdict)}"""\n',
            _text_of("runtime.py"),
            engine,
            f"\nVERDICT = {_literal(verdict.model_dump_json())}\n",
            f"REFERENCE = {_literal(source)}",
            _LOAD,
            f"KERNEL = Kernel(\n    {made},\n{arguments})\n",
            _TAIL,
        ]
    )


def _native(candidate: Candidate) -> tuple[str, str]:
    """Text that defines the engine of a C++ Candidate, and the expression that makes it."""
    sources = {"kernelwright.h": (INCLUDE / "kernelwright.h").read_text()}
    sources |= {source.name: source.text for source in candidate.sources}
    listed = "".join(f"    {name!r}: {_literal(text)},\n" for name, text in sources.items())
    facts = {"entry": candidate.entry, "flags": list(FLAGS), "links": list(LINK_FLAGS)}
    facts["dtypes"] = list(DTYPES)
    made = ", ".join(f"{name}={value!r}" for name, value in facts.items())
    text = f"{_text_of('native.py')}\nSOURCES = {{\n{listed}}}\n"
    return text, f"Native(sources=SOURCES, {made})"


def _traced(candidate: Candidate) -> tuple[str, str]:
    """The same for a graph of ATen operators, written out as a function."""
    program = parse(candidate.sources[0].text)
    return f"{_text_of('traced.py')}\n\n{as_python(program)}", "Traced(program)"


def _text_of(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


_LOAD = """
# As a string, so that its names and those above do not meet.
_reference = {"__name__": __name__ + ".reference"}
exec(compile(REFERENCE, "<reference>", "exec"), _reference)
Model = _reference["Model"]
get_inputs, get_init_inputs = _reference["get_inputs"], _reference["get_init_inputs"]
"""
_TAIL = """
class ModelNew(Model):
    \"\"\"`Model` with the kernel in its forward; constructor and parameters are the same.\"\"\"

    def forward(self, *arguments):
        return KERNEL.run(self, super().forward, arguments)


if __name__ == "__main__":
    torch.manual_seed(0)
    theirs, mine = Model(*get_init_inputs()), ModelNew(*get_init_inputs())
    mine.load_state_dict(theirs.state_dict())
    raise SystemExit(self_test(KERNEL, theirs, mine, get_inputs()))
"""


def _headline(candidate: Candidate, verdict: Verdict) -> str:
    gain = verdict.speedup
    assert gain is not None
    return (
        f"{verdict.task}, {gain.mid:.2f}x [{gain.low:.2f}, {gain.high:.2f}] faster than the best "
        f"baseline\n\nVerified by kernelwright at {verdict.tier}; candidate {candidate.id}. "
        "`ModelNew` takes the place of `Model`.\n"
        "Run this file to test the kernel on this machine.\n"
    )


def _literal(text: str) -> str:
    """A Python literal that shows its lines where it can: raw, in triple quotes."""
    plain = "'''" not in text and not text.endswith(("\\", "'"))
    return f"r'''{text}'''" if plain else repr(text)


def _patterns(reference: Reference, signature: Signature) -> list[dict[str, Any]]:
    """Each slot's sizes, a named one by its name, and its strides unless it is contiguous."""
    others = {name: _nearby(reference, name) for name in reference.domain}
    found = []
    for at, slot in enumerate(signature.slots):
        sizes: list[int | str] = list(slot.shape)
        for name, other in others.items():
            changed = other.slots[at].shape
            for axis, size in enumerate(slot.shape):
                if changed[axis] != size:
                    exact = size == reference.default_shape[name] and isinstance(sizes[axis], int)
                    sizes[axis] = name if exact else size
        dense = list(slot.strides) == list(torch.empty(slot.shape, device="meta").stride())
        strides = None if dense else list(slot.strides)
        found.append({"name": slot.name, "dtype": slot.dtype, "sizes": sizes, "strides": strides})
    return found


def _nearby(reference: Reference, name: str) -> Signature:
    """The signature with one named size changed by one."""
    low, high = reference.domain[name]
    size = reference.default_shape[name]
    changed = size + 1 if size < high else max(low, size - 1)
    with torch.device("meta"):
        return read_signature(reference, reference.default_shape | {name: changed})


def _scalars(reference: Reference) -> list[int | float | bool]:
    inputs = reference.make_inputs(reference.default_shape, seed=0)
    return [value for value in inputs if not isinstance(value, torch.Tensor)]


def _mode_that_matters(reference: Reference) -> bool | None:
    """The mode the reference was judged in, where `.train()` and `.eval()` differ; else None."""
    shape = reference.default_shape
    model = reference.build(shape, seed=0)
    judged = model.training
    results = []
    for mode in (True, False):
        with torch.no_grad():
            result = model.train(mode)(*reference.make_inputs(shape, seed=0))
        results.append(flatten_outputs(result) or [])
    same = all(torch.equal(a, b) for a, b in zip(results[0], results[1], strict=True))
    return None if same else judged
