"""Whether two imports of one source mean the same: part of every exported file."""

import dis
import types

import torch

_NOT_MEANING = {"__dict__", "__weakref__", "__module__", "__doc__", "__qualname__"}


def alike(a, b, seen=None):
    """Equal values, or functions and classes with equal code, whatever module they come from."""
    seen = set() if seen is None else seen
    if a is b or (id(a), id(b)) in seen:
        return True
    seen.add((id(a), id(b)))
    if isinstance(a, type) and isinstance(b, type):
        return _same_class(a, b, seen)
    if not alike(type(a), type(b), seen):
        return False
    match a:
        case types.FunctionType():
            return _same_function(a, b, seen)
        case types.CodeType():
            return _same_code(a, b, seen)
        case types.ModuleType():
            return a.__name__ == b.__name__
        case types.CellType() | staticmethod() | classmethod() | property():
            names = ("cell_contents", "__func__", "fget", "fset", "fdel")
            return all(alike(getattr(a, n, None), getattr(b, n, None), seen) for n in names)
    return _same_value(a, b, seen)


def _same_value(a, b, seen):
    match a:
        case torch.Tensor():
            return a.dtype == b.dtype and torch.equal(a, b)
        case list() | tuple():
            return len(a) == len(b) and all(map(lambda x, y: alike(x, y, seen), a, b))
        case dict():
            return list(a) == list(b) and all(alike(a[key], b[key], seen) for key in a)
    try:
        same = bool(a == b)
    except (ValueError, RuntimeError):  # an array has no one answer
        return False
    return same or (bool(getattr(a, "__dict__", None)) and alike(vars(a), vars(b), seen))


def _same_class(a, b, seen):
    mine, theirs = (
        {name: value for name, value in vars(cls).items() if name not in _NOT_MEANING}
        for cls in (a, b)
    )
    return (
        a.__qualname__ == b.__qualname__
        and alike(a.__bases__, b.__bases__, seen)
        and mine.keys() == theirs.keys()
        and all(alike(mine[name], theirs[name], seen) for name in mine)
    )


def _same_function(a, b, seen):
    names = _globals_of(a.__code__)
    return (
        alike(a.__code__, b.__code__, seen)
        and alike(a.__defaults__, b.__defaults__, seen)
        and alike(a.__kwdefaults__, b.__kwdefaults__, seen)
        and alike(a.__closure__, b.__closure__, seen)
        and all(alike(a.__globals__.get(n), b.__globals__.get(n), seen) for n in names)
    )


def _same_code(a, b, seen):
    return (a.co_code, a.co_names, a.co_varnames, a.co_freevars, a.co_cellvars) == (
        b.co_code,
        b.co_names,
        b.co_varnames,
        b.co_freevars,
        b.co_cellvars,
    ) and alike(a.co_consts, b.co_consts, seen)


def _globals_of(code):
    names = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            names |= _globals_of(inner)
    return names
