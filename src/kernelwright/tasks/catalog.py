"""From what a person types to a Task."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path

from kernelwright.core.errors import TaskNotFound, TaskUnusable
from kernelwright.core.task import (
    BuiltinOrigin,
    DeviceKind,
    Dim,
    FileOrigin,
    InputSpec,
    KernelBenchOrigin,
    ModuleOrigin,
    Origin,
    Task,
)
from kernelwright.tasks.spec import ReferenceSpec

_BUILTIN = Path(__file__).with_name("builtin")
_INPUT = re.compile(r"^(\d+(?:x\d+)*)(?::([a-z0-9]+))?$")
_DTYPES = (
    *("float32", "float64", "float16", "bfloat16"),
    *("int64", "int32", "int16", "int8", "uint8", "bool"),
)


def builtin_names() -> list[str]:
    """Names of the references that ship with the package."""
    return sorted(path.stem for path in _BUILTIN.glob("[a-z]*.py"))


def describe(name: str) -> str:
    """First line of a built-in's docstring."""
    first = (_BUILTIN / f"{name}.py").read_text().split('"""')[1]
    return first.strip().splitlines()[0]


def find_task(
    name: str,
    *,
    inputs: Sequence[str] = (),
    kernelbench: Path | None = None,
    device: DeviceKind = "cpu",
) -> Task:
    """Resolves what a user typed.

    Forms: a built-in name, `file.py`, `file.py:Class`, `package.module:Class`,
    `kernelbench:LEVEL/PROBLEM`.

    Args:
        name: what the user typed.
        inputs: `4096x1024:float32` and so on, for the forms that name a class.
        kernelbench: folder that holds `level1` to `level4`; default `$KERNELBENCH_ROOT`.
        device: where it is to be computed.

    Raises:
        TaskNotFound: it names nothing; the text says what was meant, perhaps.
        TaskUnusable: an input is malformed or missing.
    """
    found = _find(name, inputs, kernelbench)
    return found if device == "cpu" else found.model_copy(update={"device": device})


def _find(name: str, inputs: Sequence[str], kernelbench: Path | None) -> Task:
    if name in builtin_names():
        path = _BUILTIN / f"{name}.py"
        return _task(name, BuiltinOrigin(name=name), _read(path))
    if name.startswith("kernelbench:"):
        return _kernelbench(name, kernelbench)
    target, _, class_name = name.partition(":")
    if class_name:
        return _module(target, class_name, inputs)
    if target.endswith(".py"):
        path = _existing(target)
        return _task(path.stem, FileOrigin(path=str(path)), _read(path))
    close = difflib.get_close_matches(name, builtin_names(), n=1, cutoff=0.5)
    known = f"built-in tasks are {', '.join(builtin_names())}"
    raise TaskNotFound(name, f"did you mean {close[0]!r}? ({known})" if close else known)


def reference_spec(task: Task) -> ReferenceSpec:
    """Where the reference of a Task is, in the form that travels to workers."""
    match task.origin:
        case BuiltinOrigin(name=name):
            return ReferenceSpec("file", str(_BUILTIN / f"{name}.py"), device=task.device)
        case FileOrigin(path=path) | KernelBenchOrigin(path=path):
            return ReferenceSpec("file", path, device=task.device)
        case ModuleOrigin(target=target, class_name=class_name, inputs=inputs):
            given = tuple((spec.shape, spec.dtype) for spec in inputs)
            return ReferenceSpec("module", target, class_name, given, task.device)


def words_of(task: Task) -> list[str]:
    """The words that name the Task on a command line: the argument and its options."""
    match task.origin:
        case BuiltinOrigin(name=name):
            return [name]
        case FileOrigin(path=path):
            return [path]
        case KernelBenchOrigin(path=path, level=level, problem=problem):
            return [f"kernelbench:{level}/{problem}", "--kernelbench", str(Path(path).parents[1])]
        case ModuleOrigin(target=target, class_name=class_name, inputs=inputs):
            shapes = ["x".join(map(str, spec.shape)) + f":{spec.dtype}" for spec in inputs]
            options = [word for shape in shapes for word in ("--input", shape)]
            return [f"{target}:{class_name}", *options]


def require_unchanged(task: Task) -> None:
    """Checks that a stored Task still means what it meant.

    Raises:
        TaskNotFound: its file or module is gone.
        TaskUnusable: its source was changed since, so its Verdicts are about something else.
    """
    match task.origin:
        case BuiltinOrigin(name=name):
            path = _existing(str(_BUILTIN / f"{name}.py"))
        case FileOrigin(path=text) | KernelBenchOrigin(path=text):
            path = _existing(text)
        case ModuleOrigin(target=target, class_name=class_name):
            path = _existing(target) if target.endswith(".py") else _module_file(target, class_name)
    if _digest(_read(path)) != task.source_hash:
        raise TaskUnusable(str(path), "it was changed since the run began", "Start a new run.")


def _task(name: str, origin: Origin, source: str, *, domain: tuple[Dim, ...] | None = None) -> Task:
    return Task(
        name=name,
        origin=origin,
        source_hash=_digest(source),
        domain=_domain(source) if domain is None else domain,
    )


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise TaskUnusable(
            str(path), f"it cannot be read: {error.strerror}", "Mend that."
        ) from None


def _domain(source: str) -> tuple[Dim, ...]:
    """Reads `DOMAIN = {"name": (low, high)}` as a literal: nothing of the file is run here."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["DOMAIN"]:
            try:
                ranges = ast.literal_eval(node.value)
                return tuple(Dim(name=n, low=low, high=high) for n, (low, high) in ranges.items())
            except (ValueError, TypeError, AttributeError):
                return ()  # loading the reference says what is wrong with it
    return ()


def _kernelbench(name: str, root: Path | None) -> Task:
    named = os.environ.get("KERNELBENCH_ROOT")
    given = root or (Path(named) if named else None)
    if given is None:
        raise TaskNotFound(name, "say where KernelBench is: --kernelbench DIR or $KERNELBENCH_ROOT")
    match = re.fullmatch(r"kernelbench:(\d)/(\d+)", name)
    if match is None:
        raise TaskNotFound(name, "write kernelbench:LEVEL/PROBLEM, for example kernelbench:1/23")
    level, problem = match.groups()
    # A checkout keeps the levels one folder down, the unpacked data set at its top.
    folders = [given / f"level{level}", given / "KernelBench" / f"level{level}"]
    found = [path for folder in folders for path in sorted(folder.glob(f"{problem}_*.py"))]
    if not found:
        raise TaskNotFound(name, f"{folders[0]} has no file {problem}_*.py")
    path = found[0].resolve()
    origin = KernelBenchOrigin(path=str(path), level=int(level), problem=int(problem))
    return _task(f"kernelbench-{level}-{problem}", origin, _read(path))


def _module(target: str, class_name: str, inputs: Sequence[str]) -> Task:
    if target.endswith(".py"):
        path = _existing(target)
        resolved = str(path)
    else:
        path, resolved = _module_file(target, class_name), target
    if not inputs:
        raise TaskUnusable(
            f"{target}:{class_name}",
            "its inputs are unknown",
            "Say them: --input 4096x1024:float32, once per argument of forward.",
        )
    specs = tuple(_input(text) for text in inputs)
    origin = ModuleOrigin(target=resolved, class_name=class_name, inputs=specs)
    return _task(class_name, origin, _read(path), domain=())


def _module_file(target: str, class_name: str) -> Path:
    """The source of a dotted module. Its parent packages are imported, as Python must."""
    try:
        spec = importlib.util.find_spec(target)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
        return Path(spec.origin)
    hint = f"no Python module {target!r} can be imported"
    if Path(target.replace(".", "/")).with_suffix(".py").is_file():
        hint += "; for one below this folder set PYTHONPATH=$PWD"
    raise TaskNotFound(f"{target}:{class_name}", hint)


def _input(text: str) -> InputSpec:
    match = _INPUT.match(text)
    if match is None or (match[2] or "float32") not in _DTYPES:
        raise TaskUnusable(
            f"--input {text}", "it is no shape and dtype", "Write it like 4096x1024:float32."
        )
    shape = tuple(int(size) for size in match[1].split("x"))
    return InputSpec(shape=shape, dtype=match[2] or "float32")


def _existing(target: str) -> Path:
    path = Path(target).expanduser()
    if not path.is_file():
        raise TaskNotFound(target, "there is no such file")
    return path.resolve()
