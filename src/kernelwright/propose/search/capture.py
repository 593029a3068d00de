"""From a reference to the IR: torch.export on the meta device, so no weight is ever allocated."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernelwright.backends.graph_ops import ALLOWED
from kernelwright.propose.search.ir import Builder, Graph, Node, Size
from kernelwright.tasks.reference import Reference
from kernelwright.tasks.slots import Signature, module_tensors

_POWERS = (1.0, 0.5, -0.5, -1.0)
Place = tuple[int | str, ...]
"""Where an argument stands: number of the call, position or name, then positions in lists."""


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
        CaptureFailed: data-dependent control flow, a mutation that export cannot lift, random
            numbers, an operator that no graph program may call, or a constant that follows no size.
    """
    if signature.random:
        raise CaptureFailed("forward draws random numbers")
    program = _export(reference, shape)
    other = _export(reference, other_shape) if other_shape else None
    slots = _slot_metas(reference, shape, signature)
    if other is None or other_shape is None:
        sizes = {}
    else:
        sizes = _sizes(program, other, slots, _slot_metas(reference, other_shape, signature))
    graph, builder = _translate(program, signature, slots, sizes)
    graph.constants = _constants_of(reference, shape, signature)
    graph.strided = frozenset(at for at, meta in enumerate(slots) if not meta.is_contiguous())
    graph.any_shape = bool(other_shape)
    return graph, builder


def _export(reference: Reference, shape: Mapping[str, int]) -> Any:
    with torch.device("meta"):
        model = reference.build(shape, seed=0)
        inputs = reference.make_inputs(shape, seed=0)
    try:
        # On meta in forward too: what it makes of its own has to meet its inputs there.
        with warnings.catch_warnings(), torch.no_grad(), torch.device("meta"):
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
    signature: Signature,
    metas: list[torch.Tensor],
    sizes: Mapping[Place, Size],
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
        if not name.startswith("aten.") or name.split(".")[1] not in ALLOWED:
            raise CaptureFailed(f"the operator {name} is not among those of graph programs")
        args = tuple(_argument(a, values, sizes, (number, at)) for at, a in enumerate(node.args))
        kwargs = {
            key: _argument(a, values, sizes, (number, key))
            for key, a in node.kwargs.items()
            if key not in ("device", "layout", "pin_memory")
        }
        values[node.name] = builder.call(name, *args, **kwargs)
    return Graph(slots, _outputs(program, signature, values)), builder


def _outputs(program: Any, signature: Signature, values: Mapping[str, Any]) -> tuple[Node, ...]:
    """The results of forward, then the new value of each buffer it writes, in slot order."""
    returned: list[Node] = []
    written: dict[str, Node] = {}
    for spec in program.graph_signature.output_specs:
        if spec.kind.name == "USER_OUTPUT" and getattr(spec.arg, "name", None) in values:
            returned.append(values[spec.arg.name])
        elif spec.kind.name == "BUFFER_MUTATION":
            written[spec.target] = values[spec.arg.name]
    state = [output.name for output in signature.outputs if output.role == "state"]
    if set(state) != set(written) or len(returned) + len(state) != len(signature.outputs):
        raise CaptureFailed("export sees other outputs than the call returns")
    return (*returned, *(written[name] for name in state))


def _constants_of(
    reference: Reference, shape: Mapping[str, int], signature: Signature
) -> dict[int, torch.Tensor]:
    """Values of the constant slots. Builds the real module, so only where there are any."""
    if not any(slot.role == "constant" for slot in signature.slots):
        return {}
    tensors = [tensor.detach() for _, _, tensor in module_tensors(reference.build(shape, seed=0))]
    first = len(signature.slots) - len(tensors)
    return {
        at: tensors[at - first]
        for at, slot in enumerate(signature.slots)
        if slot.role == "constant"
    }


def _bind_placeholders(
    program: Any, signature: Signature, slots: tuple[Node, ...]
) -> dict[str, Any]:
    by_name = {slot.name: node for slot, node in zip(signature.slots, slots, strict=True)}
    inputs = iter(
        node for slot, node in zip(signature.slots, slots, strict=True) if slot.role == "input"
    )
    values: dict[str, Any] = {}
    for spec in program.graph_signature.input_specs:
        name = str(getattr(spec.arg, "name", ""))
        if spec.kind.name == "USER_INPUT":
            if type(spec.arg).__name__ == "TensorArgument":
                values[name] = next(inputs)
        elif spec.target in by_name:
            values[name] = by_name[spec.target]
        else:
            raise CaptureFailed(f"forward reads {spec.target}, which is no tensor of the module")
    return values


def _argument(
    arg: Any, values: Mapping[str, Any], sizes: Mapping[Place, Size], place: Place
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
) -> dict[Place, Size]:
    """Places of constants that differ between the shapes, and the size each one follows."""
    mine, theirs = list(program.graph.nodes), list(other.graph.nodes)
    if [str(n.target) for n in mine if n.op == "call_function"] != [
        str(n.target) for n in theirs if n.op == "call_function"
    ]:
        raise CaptureFailed("another shape runs other operators")
    found: dict[Place, Size] = {}
    for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        given = [*_constants(a.args, b.args, (number,))]
        for key in a.kwargs:
            given += _constants(a.kwargs[key], b.kwargs[key], (number, key))
        for place, x, y in given:
            if x != y:
                found[place] = _follow(x, y, metas, other_metas)
    return found


def _constants(a: Any, b: Any, place: Place) -> Iterator[tuple[Place, float, float]]:
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
