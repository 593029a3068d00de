"""Graph programs: a JSON list of ATen calls, pure data.

    {"slots": 3, "nodes": [{"op": "aten.linear.default", "args": [{"ref": 0}, ...], "kwargs": {}}],
     "outputs": [{"ref": 3}]}

Values are numbered: slots first, then nodes. An argument is a number, a string, null, a list, or
one of {"ref": value, "item": k}, {"size": [slot, dimension], "power": p} (a size of an input raised
to a power, so that a program holds at other shapes), {"dtype": name}, {"float": "inf"}. Nothing in
it is ever evaluated; an operator outside `graph_ops.ALLOWED`, or one that writes an argument, is
refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.backends.graph_ops import ALLOWED

_MAX_NODES = 4000
_MAX_DEPTH = 6
_DTYPES = {
    name: getattr(torch, name)
    for name in (
        *("float32", "float64", "float16", "bfloat16"),
        *("int64", "int32", "int16", "int8", "uint8", "bool"),
    )
}
_STRINGS = ("none", "tanh", "mean", "sum", "floor", "trunc", "constant", "reflect", "replicate")
_POWERS = (1, -1, 0.5, -0.5)
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class ProgramError(Exception):
    """The program is outside the format; the text names the first thing that is wrong."""


@dataclass(frozen=True, slots=True)
class Call:
    """One checked call; arguments still in their JSON form."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """A checked program."""

    n_slots: int
    calls: tuple[Call, ...]
    outputs: tuple[dict[str, int], ...]


def parse(text: str, n_slots: int | None = None) -> Program:
    """Checks a program from its text. Raises ProgramError and nothing else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"it is no JSON: {error}") from None
    if not isinstance(data, dict) or set(data) != {"slots", "nodes", "outputs"}:
        raise ProgramError("it is no object with slots, nodes and outputs")
    slots, nodes, outputs = data["slots"], data["nodes"], data["outputs"]
    if type(slots) is not int or not 0 <= slots <= _MAX_NODES:
        raise ProgramError("slots is no small number")
    if n_slots is not None and slots != n_slots:
        raise ProgramError(f"it reads {slots} slots, the task has {n_slots}")
    if not isinstance(nodes, list) or len(nodes) > _MAX_NODES:
        raise ProgramError(f"nodes is no list of at most {_MAX_NODES}")
    calls = tuple(_call(node, slots + at, slots) for at, node in enumerate(nodes))
    if not isinstance(outputs, list) or not outputs:
        raise ProgramError("outputs is no list of references")
    for output in outputs:
        if not isinstance(output, dict) or "ref" not in output:
            raise ProgramError("an output is no reference")
        _check(output, slots + len(nodes), slots, depth=0)
    return Program(slots, calls, tuple(outputs))


def build_module(program: Program) -> Any:
    """A callable on the slot tensors, traceable by torch.compile; returns the list of outputs."""
    calls, outputs, n_slots = program.calls, program.outputs, program.n_slots

    def run(*slots: torch.Tensor) -> list[torch.Tensor]:
        if len(slots) != n_slots:
            raise ProgramError(f"it reads {n_slots} slots, {len(slots)} were given")
        values: list[Any] = list(slots)
        for call in calls:
            args = [_resolve(arg, values) for arg in call.args]
            kwargs = {key: _resolve(arg, values) for key, arg in call.kwargs.items()}
            values.append(call.target(*args, **kwargs))
        return [_resolve(output, values) for output in outputs]

    return run


def dump(n_slots: int, nodes: Sequence[dict[str, Any]], outputs: Sequence[dict[str, Any]]) -> str:
    """The text of a program."""
    return json.dumps({"slots": n_slots, "nodes": list(nodes), "outputs": list(outputs)}, indent=1)


def _call(node: Any, known: int, slots: int) -> Call:
    if not isinstance(node, dict) or set(node) - {"op", "args", "kwargs"} or "op" not in node:
        raise ProgramError(f"node {known} is no object with op, args and kwargs")
    args, kwargs = node.get("args", []), node.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ProgramError(f"node {known}: args is no list or kwargs no object")
    for arg in (*args, *kwargs.values()):
        _check(arg, known, slots, depth=0)
    target = _target(node["op"], known)
    _check_signature(target, args, kwargs, known)
    return Call(target, tuple(args), kwargs)


def _target(name: Any, known: int) -> Any:
    parts = name.split(".") if isinstance(name, str) else []
    if len(parts) != 3 or parts[0] != "aten" or parts[1] not in ALLOWED:
        raise ProgramError(f"node {known}: {str(name)[:80]!r} is no allowed operator")
    packet = getattr(torch.ops.aten, parts[1], None)
    if packet is None or parts[2] not in packet.overloads():
        raise ProgramError(f"node {known}: there is no overload {name!r}")
    target = getattr(packet, parts[2])
    if target._schema.is_mutable:
        raise ProgramError(f"node {known}: {name!r} writes its arguments")
    # TorchScript's overloads on numbers, strings and lists share the names (`aten.mul.left_t`).
    if any(str(result.type) not in ("Tensor", "List[Tensor]") for result in target._schema.returns):
        raise ProgramError(f"node {known}: {name!r} returns no tensor")
    return target


def _check_signature(target: Any, args: list[Any], kwargs: dict[str, Any], known: int) -> None:
    """Argument names exist, and no argument asks for a write or for random numbers."""
    names = [argument.name for argument in target._schema.arguments]
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names) or set(kwargs) - (set(names) - set(given)):
        raise ProgramError(f"node {known}: {target} takes ({', '.join(names)})")
    given |= kwargs
    if given.get("dropout_p", 0) != 0:
        raise ProgramError(f"node {known}: {target} with dropout draws random numbers")
    # batch_norm and its kin update the running statistics without a word in their schema.
    trains = given.get("training", given.get("use_input_stats", False)) is not False
    functional = target._schema.name.endswith("_functional")
    if trains and not functional and given.get("running_mean") is not None:
        raise ProgramError(f"node {known}: {target} in training mode writes its statistics")


def _check(arg: Any, known: int, slots: int, *, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise ProgramError(f"node {known}: an argument is nested too deeply")
    if isinstance(arg, list):
        for part in arg:
            _check(part, known, slots, depth=depth + 1)
    elif isinstance(arg, dict):
        if not _is_tagged(arg, known, slots):
            raise ProgramError(f"node {known}: an argument is malformed: {str(arg)[:80]}")
    elif isinstance(arg, str) and arg not in _STRINGS:
        raise ProgramError(f"node {known}: the string {arg[:40]!r} is not allowed")


def _is_tagged(arg: dict[str, Any], known: int, slots: int) -> bool:
    match arg:
        case {"ref": ref, **rest}:
            return set(rest) <= {"item"} and _below(ref, known) and _below(rest.get("item", 0), 64)
        case {"size": [slot, dim], **rest}:
            power = rest.get("power", 1)
            known_power = isinstance(power, int | float) and power in _POWERS
            return set(rest) <= {"power"} and _below(slot, slots) and _below(dim, 8) and known_power
        case {"dtype": str(name)}:
            return len(arg) == 1 and name in _DTYPES
        case {"float": str(name)}:
            return len(arg) == 1 and name in _FLOATS
        case _:
            return False


def _below(value: Any, bound: int) -> bool:
    return type(value) is int and 0 <= value < bound


def _resolve(arg: Any, values: list[Any]) -> Any:
    match arg:
        case list():
            return [_resolve(part, values) for part in arg]
        case {"ref": ref, **rest}:
            return values[ref][rest["item"]] if "item" in rest else values[ref]
        case {"size": [slot, dim], **rest}:
            size = values[slot].shape[dim]
            power = rest.get("power", 1)
            return size if power == 1 else size**power
        case {"dtype": name}:
            return _DTYPES[name]
        case {"float": name}:
            return _FLOATS[name]
        case _:
            return arg
