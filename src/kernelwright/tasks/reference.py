"""Reference: the live PyTorch side of a Task. Loaded alike by the judge and inside workers."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelwright.tasks.loading import import_target
from kernelwright.tasks.refuse import one_line, refuse
from kernelwright.tasks.shapes import (
    Shape,
    boundary_shapes,
    edge_shapes,
    long_shapes,
    sample_shape,
)
from kernelwright.tasks.spec import ReferenceSpec

__all__ = ["Reference", "ReferenceSpec", "Shape", "load_reference"]

_FORMAT = "A task file defines Model, get_inputs() and get_init_inputs()"


class Reference:
    """Builds the module and its inputs at any shape of the Task's domain."""

    def __init__(self, spec: ReferenceSpec, module: ModuleType) -> None:
        self.spec = spec
        self.device = torch.device(spec.device)
        self._module = module
        self.domain: dict[str, tuple[int, int]] = self._domain()
        """Closed range of each named size; empty means exactly the shapes the inputs have."""
        self.special_values = bool(getattr(module, "SPECIAL_VALUES", False))
        """Whether NaN and infinities are inputs like any other, and must come out where they do."""
        self.forbidden_calls: tuple[str, ...] = self._forbidden_calls()
        """Patterns of PyTorch operators that a Candidate may not call."""
        self.default_shape: dict[str, int] = self._defaults()

    def build(
        self, shape: Shape, *, seed: int, model_class: type[torch.nn.Module] | None = None
    ) -> torch.nn.Module:
        """Constructs the module right after seeding torch, as KernelBench does; never `.eval()`.

        Args:
            shape: named sizes of the domain.
            seed: seeds torch's generator.
            model_class: constructs another class from the same arguments (a submission's).

        Raises:
            TaskUnusable: the constructor or `get_init_inputs` fails.
        """
        constructor = model_class or getattr(self._module, self.spec.class_name)
        arguments = self._call("get_init_inputs", shape) if self.spec.kind == "file" else []
        if not isinstance(arguments, list | tuple):
            refuse(
                self.spec.target,
                f"get_init_inputs() returns {type(arguments).__name__}",
                "Return the list of the constructor's arguments",
            )
        torch.manual_seed(seed)
        try:
            with self._on_device():
                model = constructor(*arguments)
        except Exception as error:
            refuse(self.spec.target, f"{constructor.__name__}() fails: {one_line(error)}")
        if not isinstance(model, torch.nn.Module):
            refuse(self.spec.target, f"{constructor.__name__} is not an nn.Module")
        return model

    def make_inputs(self, shape: Shape, *, seed: int) -> list[Any]:
        """The arguments of forward: tensors and Python scalars.

        Raises:
            TaskUnusable: `get_inputs` fails or returns anything else.
        """
        torch.manual_seed(seed)
        if self.spec.kind == "module":
            with self._on_device():
                return [_draw_like(shape_, dtype) for shape_, dtype in self.spec.inputs]
        inputs = self._call("get_inputs", shape)
        if not isinstance(inputs, list | tuple) or not all(_is_input(value) for value in inputs):
            refuse(
                self.spec.target,
                "get_inputs() returns no list of tensors and numbers",
                "Return the list of forward's arguments",
            )
        return list(inputs)

    def sample_shape(self, rng: np.random.Generator) -> dict[str, int]:
        """A shape inside the domain, unlike the default but about as dear."""
        return sample_shape(self.domain, self.default_shape, rng, cost=self._elements)

    def boundary_shapes(self) -> list[dict[str, int]]:
        """The default with one size at a time at its lower bound, and all of them there."""
        return boundary_shapes(self.domain, self.default_shape)

    def secret_shapes(self, rng: np.random.Generator, count: int) -> list[dict[str, int]]:
        """Shapes to judge at beside the default: edges, a bound, samples, and each size long.

        Args:
            rng: secret.
            count: how many, apart from the long ones; none at all where it is 0.
        """
        if count == 0:
            return []
        shapes = edge_shapes(self.domain, self.default_shape)
        bounds = self.boundary_shapes()
        shapes.append(bounds[int(rng.integers(len(bounds)))])
        while len(shapes) < count:
            shapes.append(self.sample_shape(rng))
        long = long_shapes(self.domain, self.default_shape, rng, cost=self._elements)
        return shapes[:count] + long

    def _elements(self, shape: Shape) -> float:
        """Elements that all operators of a call write together, found without any memory."""
        from kernelwright.core.errors import KernelwrightError  # no worker comes here

        try:
            with torch.device("meta"), torch.no_grad(), _CountElements() as counted:
                self.build(shape, seed=0)(*self.make_inputs(shape, seed=0))
        except (RuntimeError, TypeError, ValueError, KernelwrightError):
            return float(np.prod(list(shape.values()), dtype=np.float64))  # needs real values
        return counted.elements

    def _domain(self) -> dict[str, tuple[int, int]]:
        domain = getattr(self._module, "DOMAIN", {}) if self.spec.kind == "file" else {}
        try:
            return {str(name): (int(low), int(high)) for name, (low, high) in domain.items()}
        except (AttributeError, TypeError, ValueError):
            refuse(
                self.spec.target,
                "DOMAIN is no dict of (low, high) pairs",
                'Write it like DOMAIN = {"rows": (1, 8192)}',
            )

    def _forbidden_calls(self) -> tuple[str, ...]:
        patterns = getattr(self._module, "FORBIDDEN_CALLS", ())
        if not isinstance(patterns, list | tuple) or not all(isinstance(p, str) for p in patterns):
            refuse(
                self.spec.target,
                "FORBIDDEN_CALLS is no tuple of names",
                'Write it like FORBIDDEN_CALLS = ("*softmax*", "mm")',
            )
        return tuple(patterns)

    def _defaults(self) -> dict[str, int]:
        found: dict[str, Any] = {}
        for name in ("get_inputs", "get_init_inputs") if self.domain else ():
            for parameter in inspect.signature(getattr(self._module, name)).parameters.values():
                if parameter.name in self.domain:
                    found.setdefault(parameter.name, parameter.default)
        for name, (low, high) in self.domain.items():
            default = found.get(name)
            if not isinstance(default, int) or not low <= default <= high:
                refuse(
                    self.spec.target,
                    f"DOMAIN names {name!r} but no default in {low} to {high} is given for it",
                    f"Make {name} a parameter of get_inputs with the timed size as default",
                )
        return {name: found[name] for name in self.domain}

    def _on_device(self) -> AbstractContextManager[Any]:
        """Where tensors are made that name no device; whoever asked for `meta` keeps it."""
        if self.device.type == "cpu" or torch.get_default_device().type == "meta":
            return nullcontext()
        return self.device

    def _call(self, name: str, shape: Shape) -> Any:
        function = getattr(self._module, name)
        accepted = inspect.signature(function).parameters
        try:
            with self._on_device():
                return function(**{key: size for key, size in shape.items() if key in accepted})
        except Exception as error:
            refuse(self.spec.target, f"{name}() fails: {one_line(error)}")


def load_reference(spec: ReferenceSpec) -> Reference:
    """Imports the reference's module.

    Raises:
        TaskUnusable: it does not import, needs a missing package, or lacks what it must define.
    """
    module = import_target(spec.target)
    needed = ["get_inputs", "get_init_inputs"] if spec.kind == "file" else []
    for name in [spec.class_name, *needed]:
        if not callable(getattr(module, name, None)):
            advice = _FORMAT if spec.kind == "file" else f"It defines {_classes(module)}"
            refuse(spec.target, f"it does not define {name}", advice)
    return Reference(spec, module)


def _classes(module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, torch.nn.Module)
    ]
    return ", ".join(names[:5]) or "no nn.Module"


def _is_input(value: Any) -> bool:
    return isinstance(value, torch.Tensor | int | float | bool)


def _draw_like(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    kind = getattr(torch, dtype)
    if kind.is_floating_point:
        return torch.randn(shape, dtype=torch.float32).to(kind)
    if kind is torch.bool:
        return torch.randint(0, 2, shape).bool()
    return torch.randint(0, 8, shape, dtype=kind)


class _CountElements(TorchDispatchMode):
    elements = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.elements += sum(
            leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)
        )
        return result
