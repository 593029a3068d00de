"""Puts one kernel into a model that already runs: part of every exported file."""

import functools

from kernelwright.export.alike import alike


class NothingToPatch(ValueError):
    """The model has no module of the class that the kernel stands in for."""


class Patched:
    """Modules of a live model that run a kernel now, until `undo`.

    `modules` says how many; `calls` counts executions of the kernel since, in compiled programs
    too, and `fallbacks` those of the reference in eager mode.
    """

    def __init__(self, kernel, swapped):
        self._kernel, self._swapped = kernel, swapped
        self._before = kernel.calls, kernel.fallbacks
        self.modules = len(swapped)

    @property
    def calls(self):
        """Executions of the kernel."""
        return self._kernel.calls - self._before[0]

    @property
    def fallbacks(self):
        """Executions of the reference in its place."""
        return self._kernel.fallbacks - self._before[1]

    def undo(self):
        """Gives the modules their own class back; their parameters stay as they are."""
        for module, kind in self._swapped:
            module.__class__ = kind
        self._swapped = []


def patch_modules(kernel, model, wanted):
    """Swaps the class of every module whose class means the same as `wanted`."""
    found = [(module, type(module)) for module in model.modules()]
    swapped = [
        (m, kind) for m, kind in found if kind.__name__ == wanted.__name__ and alike(kind, wanted)
    ]
    if not swapped:
        names = dict.fromkeys(kind.__name__ for _, kind in found)
        if wanted.__name__ in names:
            what = f"its class {wanted.__name__} has another source than the one that was judged"
        else:
            what = f"it has no module of the class {wanted.__name__}, only {', '.join(names)}"
        raise NothingToPatch(f"the model cannot be patched: {what}")
    for module, kind in swapped:
        site = kernel.fit(module, kind)
        if site.why:
            kernel.tell(site.why, depth=3)
        module.__class__ = _with_kernel(kind, site)
    return Patched(kernel, swapped)


def _with_kernel(kind, site):
    def forward(self, *args, **kwargs):
        return site.run(self, functools.partial(kind.forward, self), args, kwargs)

    # No attribute of the module changes, so that copies and state_dict stay what they were.
    name = f"{kind.__name__}WithKernel"
    return type(name, (kind,), {"forward": forward, "__module__": kind.__module__})
