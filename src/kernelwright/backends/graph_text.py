"""Writes a graph program as the Python function it stands for, for people and for export."""

from __future__ import annotations

from typing import Any

from kernelwright.backends.graph_program import Call, Program


def as_python(program: Program) -> str:
    """Text that defines `program(v0, v1, ...)`; it needs `torch` and nothing else."""
    slots = ", ".join(f"v{at}" for at in range(program.n_slots))
    lines = [f"def program({slots}):", "    aten = torch.ops.aten"]
    for at, call in enumerate(program.calls, program.n_slots):
        lines.append(f"    v{at} = {_call(call)}")
    lines.append(f"    return {_argument(list(program.outputs))}")
    return "\n".join(lines) + "\n"


def _call(call: Call) -> str:
    words = [_argument(arg) for arg in call.args]
    words += [f"{name}={_argument(arg)}" for name, arg in call.kwargs.items()]
    return f"{call.target}({', '.join(words)})"


def _argument(arg: Any) -> str:
    match arg:
        case list():
            return f"[{', '.join(map(_argument, arg))}]"
        case {"ref": ref, **rest}:
            return f"v{ref}[{rest['item']}]" if "item" in rest else f"v{ref}"
        case {"size": [slot, dim], **rest}:
            power = rest.get("power", 1)
            size = f"v{slot}.shape[{dim}]"
            return size if power == 1 else f"{size} ** {power}"
        case {"dtype": name}:
            return f"torch.{name}"
        case {"float": name}:
            return f"float({name!r})"
        case _:
            return repr(arg)
