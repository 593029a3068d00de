"""Writes a winner as the text of one Python module that needs torch, and kernelwright not."""

from __future__ import annotations

from pathlib import Path
from pprint import pformat

from kernelwright.backends.graph_program import parse
from kernelwright.backends.graph_text import as_python
from kernelwright.backends.toolchain import FLAGS, INCLUDE, LINK_FLAGS
from kernelwright.core.candidate import Candidate
from kernelwright.core.verdict import Verdict
from kernelwright.export.facts import judged_where
from kernelwright.export.winner import Winner
from kernelwright.sandbox.wire import DTYPES
from kernelwright.tasks.loading import import_target
from kernelwright.tasks.spec import ReferenceSpec

_OURS = "from kernelwright.export."


def render(winner: Winner, *, library: str = "", needs: tuple[str, ...] = ()) -> str:
    """The module: reference, kernel, Verdict, guard, fallback, `ModelNew`, `patch`, self-test.

    Args:
        winner: what to write.
        library: name of the built kernel that will lie beside the module; empty: it is compiled.
        needs: the features that the built kernel needs of a processor.
    """
    candidate, verdict, spec = winner.candidate, winner.verdict, winner.reference.spec
    facts = judged_where(winner.reference, winner.signature)
    arguments = "".join(f"    {name}={pformat(value)},\n" for name, value in facts.items())
    arguments = f"    namespace='kernelwright_{candidate.id}',\n    build=_build,\n{arguments}"
    native = candidate.kind == "cpp"
    engine, made = _native(candidate, library, needs) if native else _traced(candidate)
    source = Path(str(import_target(spec.target).__file__)).read_text()
    parts = ("alike.py", "site.py", "runtime.py", "live.py", "selftest.py")
    return "\n".join(
        [
            f'"""{_headline(candidate, verdict)}"""\n',
            *map(_text_of, parts),
            engine,
            f"\nVERDICT = {_literal(verdict.model_dump_json())}\n",
            f"REFERENCE = {_literal(source)}",
            _LOAD,
            f"Model = _reference.{spec.class_name}",
            _inputs(spec),
            _BUILD,
            f"KERNEL = Kernel(\n    {made},\n{arguments})\n",
            _TAIL,
        ]
    )


def _native(candidate: Candidate, library: str, needs: tuple[str, ...]) -> tuple[str, str]:
    """Text that defines the engine of a C++ Candidate, and the expression that makes it."""
    sources = {"kernelwright.h": (INCLUDE / "kernelwright.h").read_text()}
    sources |= {source.name: source.text for source in candidate.sources}
    listed = "".join(f"    {name!r}: {_literal(text)},\n" for name, text in sources.items())
    facts = {"entry": candidate.entry, "flags": list(FLAGS), "links": list(LINK_FLAGS)}
    facts["dtypes"] = list(DTYPES)
    made = ", ".join(f"{name}={value!r}" for name, value in facts.items())
    if library:
        made += f", prebuilt=Path(__file__).with_name({library!r}), needs={list(needs)!r}"
    text = f"{_text_of('native.py')}\nSOURCES = {{\n{listed}}}\n"
    return text, f"Native(sources=SOURCES, {made})"


def _traced(candidate: Candidate) -> tuple[str, str]:
    """The same for a graph of ATen operators, written out as a function."""
    program = parse(candidate.sources[0].text)
    return f"{_text_of('traced.py')}\n\n{as_python(program)}", "Traced(program)"


def _text_of(name: str) -> str:
    """A module of this room without what it imports from its neighbours."""
    lines = Path(__file__).with_name(name).read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(_OURS))


def _inputs(spec: ReferenceSpec) -> str:
    """Text that defines get_inputs and get_init_inputs."""
    if spec.kind == "file":
        return "get_inputs, get_init_inputs = _reference.get_inputs, _reference.get_init_inputs\n"
    values = "".join(f"        {_drawn(shape, dtype)},\n" for shape, dtype in spec.inputs)
    return (
        f"\n\ndef get_init_inputs():\n    return []\n\n\n"
        f"def get_inputs():\n    return [\n{values}    ]\n"
    )


def _drawn(shape: tuple[int, ...], dtype: str) -> str:
    """As `tasks.reference` draws the inputs of a class."""
    if dtype == "bool":
        return f"torch.randint(0, 2, {shape}).bool()"
    if "float" in dtype:
        return f"torch.randn({shape}).to(torch.{dtype})"
    return f"torch.randint(0, 8, {shape}, dtype=torch.{dtype})"


_LOAD = """
import sys
import types

# In a module of its own, so that its names and those above do not meet.
_reference = types.ModuleType(__name__ + ".reference")
sys.modules[_reference.__name__] = _reference
exec(compile(REFERENCE, "<reference>", "exec"), vars(_reference))
"""
_BUILD = """

def _build(sizes):
    \"\"\"The module as it was judged, at some named sizes; without memory where that goes.\"\"\"
    accepted = inspect.signature(get_init_inputs).parameters
    arguments = {name: size for name, size in sizes.items() if name in accepted}
    with torch.random.fork_rng(devices=[]):
        try:
            with torch.device("meta"):
                return Model(*get_init_inputs(**arguments))
        except (RuntimeError, TypeError, ValueError):  # it needs real numbers
            return Model(*get_init_inputs(**arguments))

"""
_TAIL = """
class ModelNew(Model):
    \"\"\"`Model` with the kernel in its forward; constructor and parameters are the same.\"\"\"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._kernel_site = KERNEL.fit(self, Model)

    def forward(self, *args, **kwargs):
        return self._kernel_site.run(self, super().forward, args, kwargs)

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name != "_kernel_site"}

    def __setstate__(self, state):
        super().__setstate__(state)
        self._kernel_site = KERNEL.fit(self, Model)


def patch(model):
    \"\"\"Lets every `Model` in a live model run the kernel, on the parameters it has.

    A module counts as a `Model` if its class has that name and means the same. Returns an object
    with `modules` (how many), `calls`, `fallbacks` and `undo()`. Raises NothingToPatch.
    \"\"\"
    return patch_modules(KERNEL, model, Model)


def check_operator():
    \"\"\"Runs torch.library.opcheck on the kernel; raises what it finds.\"\"\"
    model, inputs = ModelNew(*get_init_inputs()), get_inputs()
    model._kernel_site.check([v for v in inputs if isinstance(v, torch.Tensor)], model)


def main():
    \"\"\"Tests the kernel on this machine. Exit status: 0 if it runs and is right.\"\"\"
    torch.manual_seed(0)
    theirs, mine = Model(*get_init_inputs()), ModelNew(*get_init_inputs())
    mine.load_state_dict(theirs.state_dict())
    return self_test(KERNEL, theirs, mine, get_inputs())


if __name__ == "__main__":
    raise SystemExit(main())
"""


def _headline(candidate: Candidate, verdict: Verdict) -> str:
    gain = verdict.speedup
    assert gain is not None
    return (
        f"{verdict.task}, {gain.mid:.2f}x [{gain.low:.2f}, {gain.high:.2f}] faster than the best "
        f"baseline\n\nVerified by kernelwright at {verdict.tier}; candidate {candidate.id}. "
        "`ModelNew` takes the place of `Model`;\n`patch(model)` puts the kernel into a model that "
        "holds a `Model`.\nRun this to test the kernel on this machine.\n"
    )


def _literal(text: str) -> str:
    """A Python literal that shows its lines where it can: raw, in triple quotes."""
    plain = "'''" not in text and not text.endswith(("\\", "'"))
    return f"r'''{text}'''" if plain else repr(text)
