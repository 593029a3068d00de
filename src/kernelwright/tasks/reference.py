"""Reference: the live PyTorch side of a Task. Loaded alike by the judge and inside workers."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
import torch

Shape = Mapping[str, int]
_PRIMES = (3, 7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093)


@dataclass(frozen=True, slots=True)
class ReferenceSpec:
    """Where a reference is; plain data that travels to a worker as JSON."""

    kind: str
    """`file` (KernelBench's format) or `module` (a class and the inputs it is called on)."""
    target: str
    """Absolute path of a `.py` file, or a dotted module name."""
    class_name: str = "Model"
    inputs: tuple[tuple[tuple[int, ...], str], ...] = ()
    """For `module`: shape and dtype of each input."""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReferenceSpec:
        """The inverse of `dataclasses.asdict` through JSON, which knows no tuples."""
        inputs = tuple((tuple(shape), dtype) for shape, dtype in data["inputs"])
        return cls(data["kind"], data["target"], data["class_name"], inputs)


class Reference:
    """Builds the module and its inputs at any shape of the Task's domain."""

    def __init__(self, spec: ReferenceSpec, module: ModuleType) -> None:
        self.spec = spec
        self._module = module
        self.domain: dict[str, tuple[int, int]] = dict(getattr(module, "DOMAIN", {}))
        """Closed range of each named size; empty means exactly the shapes the inputs have."""
        self.default_shape: dict[str, int] = self._defaults()

    def build(
        self, shape: Shape, *, seed: int, model_class: type[torch.nn.Module] | None = None
    ) -> torch.nn.Module:
        """Constructs the module right after seeding torch, as KernelBench does; never `.eval()`.

        Args:
            shape: named sizes of the domain.
            seed: seeds torch's generator.
            model_class: constructs another class from the same arguments (a submission's).
        """
        constructor = model_class or getattr(self._module, self.spec.class_name)
        arguments = self._call("get_init_inputs", shape) if self.spec.kind == "file" else []
        torch.manual_seed(seed)
        try:
            model = constructor(*arguments)
        except Exception as error:
            _unusable(self.spec.target, f"{constructor.__name__}() fails: {_one_line(error)}")
        if not isinstance(model, torch.nn.Module):
            _unusable(self.spec.target, f"{constructor.__name__} is not an nn.Module")
        return model

    def make_inputs(self, shape: Shape, *, seed: int) -> list[Any]:
        """The arguments of forward: tensors and Python scalars."""
        torch.manual_seed(seed)
        if self.spec.kind == "module":
            return [_draw_like(shape_, dtype) for shape_, dtype in self.spec.inputs]
        inputs = self._call("get_inputs", shape)
        if not isinstance(inputs, list | tuple) or not all(_is_input(value) for value in inputs):
            _unusable(self.spec.target, "get_inputs() returns no list of tensors and numbers")
        return list(inputs)

    def sample_shape(self, rng: np.random.Generator) -> dict[str, int]:
        """A shape inside the domain: odd and prime sizes, bounds, about the default's volume."""
        volume = int(np.prod(list(self.default_shape.values()), dtype=np.int64))
        sizes = dict(self.default_shape)
        for name in rng.permutation(list(self.domain)):
            low, high = self.domain[name]
            others = int(np.prod([s for n, s in sizes.items() if n != name], dtype=np.int64))
            ceiling = max(low, min(high, volume // max(others, 1)))
            sizes[name] = _odd_size(rng, low, ceiling)
        return sizes

    def boundary_shapes(self) -> list[dict[str, int]]:
        """The default with one size at a time at its lower bound, and all of them there."""
        lows = {name: low for name, (low, _) in self.domain.items()}
        each = [{**self.default_shape, name: low} for name, low in lows.items()]
        return [*each, lows] if lows else []

    def _defaults(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for name in ("get_inputs", "get_init_inputs"):
            function = getattr(self._module, name, None)
            for parameter in inspect.signature(function).parameters.values() if function else ():
                if parameter.name in self.domain:
                    sizes[parameter.name] = parameter.default
        return sizes

    def _call(self, name: str, shape: Shape) -> Any:
        function = getattr(self._module, name)
        accepted = inspect.signature(function).parameters
        try:
            return function(**{key: size for key, size in shape.items() if key in accepted})
        except Exception as error:
            _unusable(self.spec.target, f"{name}() fails: {_one_line(error)}")


def load_reference(spec: ReferenceSpec) -> Reference:
    """Imports the reference's module.

    Raises:
        TaskUnusable: it does not import, needs a missing package, or lacks what it must define.
    """
    module = _import(spec.target)
    needed = ["get_inputs", "get_init_inputs"] if spec.kind == "file" else []
    for name in [spec.class_name, *needed]:
        if not hasattr(module, name):
            _unusable(spec.target, f"it does not define {name}", _FORMAT)
    return Reference(spec, module)


_FORMAT = "A task file defines Model, get_inputs() and get_init_inputs()"


def _import(target: str) -> ModuleType:
    try:
        if not target.endswith(".py"):
            return importlib.import_module(target)
        path = Path(target)
        name = "kernelwright_task_" + hashlib.sha256(target.encode()).hexdigest()[:12]
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))  # a task file may import its neighbours
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        package = (error.name or "?").partition(".")[0]
        _unusable(target, f"it needs the package {package!r}", f"pip install {package}")
    except (Exception, SystemExit) as error:
        _unusable(target, f"it does not import: {_where(error, target)}{_one_line(error)}")


def _where(error: BaseException, target: str) -> str:
    if isinstance(error, SyntaxError):
        return ""  # its text names the line
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == target]
    return f"line {frames[-1].lineno}: " if frames else ""


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


def _unusable(where: str, what: str, advice: str = "Mend it and try again") -> NoReturn:
    from kernelwright.core.errors import TaskUnusable

    raise TaskUnusable(where, what, advice + ".") from None


def _is_input(value: Any) -> bool:
    return isinstance(value, torch.Tensor | int | float | bool)


def _draw_like(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(shape, dtype=torch.float32).to(kind)
    if kind is torch.bool:
        return torch.randint(0, 2, shape).bool()
    return torch.randint(0, 8, shape, dtype=kind)


def _odd_size(rng: np.random.Generator, low: int, high: int) -> int:
    """Small, prime, just off a power of two, or anything between; each kind a quarter."""
    match int(rng.integers(4)):
        case 0:
            wanted = low + int(rng.integers(0, 4))
        case 1:
            wanted = int(rng.choice(_PRIMES))
        case 2:
            wanted = 2 ** int(rng.integers(0, 13)) + int(rng.choice([-1, 1]))
        case _:
            wanted = int(rng.integers(low, high + 1))
    return min(max(wanted, low), high)
