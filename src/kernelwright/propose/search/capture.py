"""From a reference to the IR: torch.export on the meta device, so no weight is ever allocated."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from kernelwright.propose.search.ir import Builder, Graph, Node, Size
from kernelwright.tasks.reference import Reference
from kernelwright.tasks.slots import Signature, module_tensors

_POWERS = (1.0, 0.5, -0.5, -1.0)


class CaptureFailed(Exception):
    """The reference cannot be captured; the text names the operator or construct."""


def capture(
    reference: Reference,
    shape: Mapping[str, int],
    signature: Signature,
    *,
    other_shape: Mapping[str, int] | None = None,
) -> tuple[Graph, Builder]:
    """Captures forward as a Graph over the signature's slots.

    Args:
        reference: the live reference.
        shape: named sizes.
        signature: at that shape.
        other_shape: a second shape of the domain. Constants that differ there are sizes in
            disguise (8.0 = sqrt(64)) and are recorded as such, so that the graph holds at others.

    Raises:
        CaptureFailed: data-dependent control flow, a mutation that export cannot lift, state that
            forward writes, or a constant that follows no size.
    """
    if any(output.role == "state" for output in signature.outputs):
        raise CaptureFailed("forward writes a buffer")
    program = _export(reference, shape)
    other = _export(reference, other_shape) if other_shape else None
    slots = _slot_metas(reference, shape, signature)
    if other is None or other_shape is None:
        constants = {}
    else:
        constants = _sizes(program, other, slots, _slot_metas(reference, other_shape, signature))
    return _translate(program, reference, signature, slots, constants)


def _export(reference: Reference, shape: Mapping[str, int]) -> Any:
    with torch.device("meta"):
        model = reference.build(shape, seed=0)
        inputs = reference.make_inputs(shape, seed=0)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            exported = torch.export.export(model, tuple(inputs), strict=False)
            return exported.run_decompositions({})
    except Exception as error:
        raise CaptureFailed(" ".join(str(error).split())[:300]) from error


def _slot_metas(
    reference: Reference, shape: Mapping[str, int], signature: Signature
) -> list[torch.Tensor]:
    with torch.device("meta"):
        inputs = reference.make_inputs(shape, seed=0)
        model = reference.build(shape, seed=0)
    metas = [value for value in inputs if isinstance(value, torch.Tensor)]
    metas += [tensor.detach() for _, _, tensor in module_tensors(model)]
    if len(metas) != len(signature.slots):
        raise CaptureFailed("the module has other tensors on the meta device")
    return metas


def _translate(
    program: Any,
    reference: Reference,
    signature: Signature,
    metas: list[torch.Tensor],
    sizes: Mapping[tuple[int, ...], Size],
) -> tuple[Graph, Builder]:
    builder = Builder()
    slots = tuple(builder.slot(at, meta) for at, meta in enumerate(metas))
    values: dict[str, Any] = _bind_placeholders(program, signature, slots)
    for number, node in enumerate(program.graph.nodes):
        if node.op != "call_function":
            continue
        if node.target is operator.getitem:
            values[node.name] = builder.item(values[node.args[0].name], node.args[1])
            continue
        name = str(node.target)
        if not name.startswith("aten."):
            raise CaptureFailed(f"operator {name} is not ATen")
        args = tuple(_argument(a, values, sizes, (number, at)) for at, a in enumerate(node.args))
        kwargs = {key: _argument(a, values, {}, ()) for key, a in node.kwargs.items()}
        if "device" in kwargs:
            kwargs.pop("device")
        values[node.name] = builder.call(name, *args, **kwargs)
    output = next(node for node in program.graph.nodes if node.op == "output")
    outputs = tuple(values[result.name] for result in output.args[0])
    model = reference.build(reference.default_shape, seed=0)
    tensors = [tensor.detach() for _, _, tensor in module_tensors(model)]
    first = len(signature.slots) - len(tensors)
    constants = {
        first + at: tensor
        for at, tensor in enumerate(tensors)
        if signature.slots[first + at].role == "constant"
    }
    return Graph(slots, outputs, constants), builder


def _bind_placeholders(
    program: Any, signature: Signature, slots: tuple[Node, ...]
) -> dict[str, Any]:
    by_name = {slot.name: node for slot, node in zip(signature.slots, slots, strict=True)}
    inputs = iter(
        node for slot, node in zip(signature.slots, slots, strict=True) if slot.role == "input"
    )
    values: dict[str, Any] = {}
    for spec in program.graph_signature.input_specs:
        name = getattr(spec.arg, "name", None)
        if spec.kind.name == "USER_INPUT":
            if name is not None and type(spec.arg).__name__ == "TensorArgument":
                values[name] = next(inputs)
        elif spec.target in by_name:
            values[name] = by_name[spec.target]
        else:
            raise CaptureFailed(f"forward reads {spec.target}, which is no tensor of the module")
    return values


def _argument(
    arg: Any, values: Mapping[str, Any], sizes: Mapping[tuple[int, ...], Size], place: Any
) -> Any:
    if isinstance(arg, torch.fx.Node):
        return values[arg.name]
    if isinstance(arg, list | tuple):
        return tuple(_argument(part, values, sizes, (*place, at)) for at, part in enumerate(arg))
    if place in sizes:
        return sizes[place]
    if isinstance(arg, torch.device | torch.layout | torch.memory_format):
        return None
    return arg


def _sizes(
    program: Any, other: Any, metas: list[torch.Tensor], other_metas: list[torch.Tensor]
) -> dict[tuple[int, ...], Size]:
    """Places of constants that differ between the shapes, and the size each one follows."""
    mine, theirs = list(program.graph.nodes), list(other.graph.nodes)
    if [str(n.target) for n in mine if n.op == "call_function"] != [
        str(n.target) for n in theirs if n.op == "call_function"
    ]:
        raise CaptureFailed("another shape runs other operators")
    found: dict[tuple[int, ...], Size] = {}
    for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        for place, x, y in _constants(a.args, b.args, (number,)):
            if x != y:
                found[place] = _follow(x, y, metas, other_metas)
    return found


def _constants(a: Any, b: Any, place: tuple[int, ...]) -> Any:
    if isinstance(a, list | tuple):
        for at, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _constants(x, y, (*place, at))
    elif isinstance(a, int | float) and not isinstance(a, bool):
        yield place, a, b


def _follow(x: float, y: float, metas: list[torch.Tensor], other_metas: list[torch.Tensor]) -> Size:
    for power in _POWERS:
        for slot, (a, b) in enumerate(zip(metas, other_metas, strict=True)):
            for dim, (m, n) in enumerate(zip(a.shape, b.shape, strict=True)):
                if (
                    m != n
                    and abs(m**power - x) <= 1e-9 * abs(x)
                    and abs(n**power - y) <= 1e-9 * abs(y)
                ):
                    return Size(slot, dim, power, m**power)
    raise CaptureFailed(f"the constant {x} depends on the shape in a way that is not understood")
