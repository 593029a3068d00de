"""What a Python worker serves: the reference as it is, compiled, or a Candidate in its place.

Every function takes its JSON configuration and the slot tensors and returns a call without
arguments that computes freshly allocated outputs. This module runs inside workers: no pydantic.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from kernelwright.tasks.bind import bind
from kernelwright.tasks.reference import Reference, ReferenceSpec, load_reference
from kernelwright.tasks.slots import Signature

Call = Callable[[], list[Any]]
_WARM_CALLS = 2
_RATE_RUNS = 7
_GEMM_SIZE = 768


def eager(config: dict[str, Any], tensors: list[Any]) -> Call:
    """The reference as the user runs it."""
    reference, shape, signature = _reference(config)
    model = reference.build(shape, seed=config["seed"])
    return _warm(bind(model, reference, shape, signature=signature, tensors=tensors))


def compiled(config: dict[str, Any], tensors: list[Any]) -> Call:
    """The reference under torch.compile in the mode `config["mode"]`."""
    reference, shape, signature = _reference(config)
    model = reference.build(shape, seed=config["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forward = torch.compile(model, mode=config["mode"])
        return _warm(
            bind(model, reference, shape, signature=signature, tensors=tensors, forward=forward)
        )


def graph(config: dict[str, Any], tensors: list[Any]) -> Call:
    """A graph Candidate, compiled in torch.compile's default mode."""
    from kernelwright.backends.graph_program import build_module, parse

    module = build_module(parse(config["program"], len(tensors)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled_module = torch.compile(module)

        def call() -> list[Any]:
            return list(compiled_module(*tensors))

        return _warm(call)


def submission(config: dict[str, Any], tensors: list[Any]) -> Call:
    """`ModelNew` of a KernelBench submission, its parameters bound in their order."""
    reference, shape, signature = _reference(config)
    model = reference.build(shape, seed=config["seed"], model_class=load_model_new(config["path"]))
    return _warm(bind(model, reference, shape, signature=signature, tensors=tensors))


def load_model_new(path: str) -> Any:
    """Runs a submission's file and returns its class. Raises whatever the file raises."""
    module = load_file(path)
    if not hasattr(module, "ModelNew"):
        raise AttributeError("the file does not define ModelNew")
    return module.ModelNew


def load_file(path: str) -> ModuleType:
    """Runs a Candidate's file as a module of its own. Raises whatever the file raises."""
    spec = importlib.util.spec_from_file_location("submission", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _reference(config: dict[str, Any]) -> tuple[Reference, dict[str, int], Signature]:
    reference = load_reference(ReferenceSpec.from_json(config["reference"]))
    return reference, config["shape"], Signature.from_json(config["signature"])


def _warm(call: Call) -> Call:
    """Compiles and allocates before the first timed call, on whatever the arena holds by then."""
    with torch.no_grad():
        for _ in range(_WARM_CALLS):
            call()
    return call


def rates(config: dict[str, Any], tensors: list[Any]) -> Call:
    """What this machine can do: bytes copied per second and flops of a GEMM per second.

    The bytes count reads and writes, at `config["footprint"]`, so at the cache level it fits.
    """
    size = min(max(config["footprint"] // 2, 1 << 12), 64 << 20)
    source = torch.ones(size // 4)
    target = torch.empty_like(source)
    a, b = torch.randn(2, _GEMM_SIZE, _GEMM_SIZE).unbind()

    def call() -> list[Any]:
        copy_s = _fastest(lambda: target.copy_(source))
        gemm_s = _fastest(lambda: a @ b)
        values = [2 * size / copy_s, 2 * _GEMM_SIZE**3 / gemm_s]
        return [torch.tensor(values, dtype=torch.float64)]

    return call


def _fastest(action: Callable[[], Any]) -> float:
    """Seconds of the fastest of a few runs: a rate is a bound, so the best is the honest figure."""
    fastest = float("inf")
    for _ in range(_RATE_RUNS):
        started = time.perf_counter()
        action()
        fastest = min(fastest, time.perf_counter() - started)
    return max(fastest, 1e-9)


def preflight(config: dict[str, Any], tensors: list[Any]) -> Call:
    """Loads the reference and runs it once, so that what hangs or eats memory does so here."""
    reference = load_reference(ReferenceSpec.from_json(config["reference"]))
    shape = reference.default_shape
    with torch.no_grad():
        reference.build(shape, seed=0)(*reference.make_inputs(shape, seed=0))
    return list
