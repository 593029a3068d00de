"""Guards one kernel: part of every exported file."""

import warnings

import torch
from torch import nn

from kernelwright.export.alike import alike
from kernelwright.export.site import Site, plain_values, tensor_at, tensor_names


class KernelNotUsed(UserWarning):
    """The reference ran in the kernel's place; the text says why."""


class Kernel:
    """A compiled kernel that runs in a module's place where it was judged, and nowhere else.

    `calls` counts its executions, in compiled programs too. `fallbacks` counts those of the
    reference in eager mode: in a compiled program it is part of the graph.
    """

    def __init__(self, engine, *, namespace, build, slots, arguments, sizes, domain, training):
        self.engine, self.slots, self.arguments = engine, slots, arguments
        self.sizes, self.domain, self.training = sizes, domain, training
        self.kinds = [getattr(torch, slot["dtype"]) for slot in slots]
        self.library = torch.library.Library(namespace, "FRAGMENT")
        self._build, self._judged, self._sites = build, {}, []
        self._told: set[str] = set()
        self._broken: str | None = None
        self.calls = self.fallbacks = 0

    def fit(self, model, kind):
        """The Site of a module, whose forward is that of the class `kind`."""
        broken = self._load()
        tensors, plain = tensor_names(model), plain_values(model)
        for site in self._sites:
            if site.kind is kind and site.tensors == tensors and alike(site.plain, plain):
                return site
        why = (broken,) if broken else self._difference(model, tensors, plain)
        site = Site(self, model, kind, tensors, plain, why)
        self._sites.append(site)
        return site

    def tell(self, why, depth):
        """Warns once per reason, in the name of the caller that many calls away."""
        text = " ".join(map(str, why))
        if text not in self._told:
            self._told.add(text)
            message = f"the reference runs instead of the kernel: {text}"
            warnings.warn(message, KernelNotUsed, stacklevel=depth + 1)

    def mismatch(self, tensors, sizes):
        """How the tensors differ from what was judged; their named sizes are added to `sizes`.

        In parts that are joined when told: torch.compile cannot trace the formatting of sizes.
        """
        first = len(self.slots) - len(tensors)
        for tensor, slot, kind in zip(tensors, self.slots[first:], self.kinds[first:], strict=True):
            why = _mismatch(tensor, slot, kind, sizes, self.domain)
            if why:
                return (slot["name"], *why)
        return ()

    def _load(self):
        """Why the kernel cannot run here, for good; empty where it was built and loaded."""
        if self._broken is None:
            try:
                self.engine.load()
                self._broken = ""
            except (OSError, AttributeError, RuntimeError) as error:
                self._broken = str(error)
        return self._broken

    def _difference(self, model, tensors, plain):
        """How a module differs from the one that was judged, in anything but tensors' values."""
        held = [tensor_at(model, path, name) for path, name in tensors]
        inputs = sum(value is None for value in self.arguments)
        if len(held) != len(self.slots) - inputs:
            return ("it holds", len(held), "tensors, not", len(self.slots) - inputs)
        sizes = {}
        why = self.mismatch(held, sizes)
        if why:
            return why
        key = tuple(sorted(sizes.items()))
        if key not in self._judged:
            self._judged[key] = plain_values(self._build(self.sizes | sizes))
        for (path, kind, mine), (there, judged, theirs) in zip(
            plain, self._judged[key], strict=False
        ):
            if path != there or (path and not alike(kind, judged)):
                return ("it was judged with a", judged.__name__, "as its", ".".join(there))
            for name in theirs.keys() | mine.keys():
                if not alike(mine.get(name), theirs.get(name)):
                    values = (mine.get(name), "; it was judged with", theirs.get(name))
                    return ("its", ".".join((*path, name)), "is", *values)
        return () if len(plain) == len(self._judged[key]) else ("it has other submodules",)


def _mismatch(tensor, slot, kind, sizes, domain):
    """How a tensor differs from what was judged. A named size is the same wherever it stands."""
    if type(tensor) not in (torch.Tensor, nn.Parameter):
        return ("is a", type(tensor).__name__)
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        where = (tensor.device, tensor.layout)
        return ("is on", *where, "; it was judged on strided cpu tensors")
    if tensor.dtype != kind:
        return ("is", tensor.dtype, "and was judged as", kind)
    if tensor.ndim != len(slot["sizes"]):
        return ("has", tensor.ndim, "dimensions and was judged with", len(slot["sizes"]))
    return _misfit(tensor, slot, sizes, domain)


def _misfit(tensor, slot, sizes, domain):
    """How its sizes and strides differ."""
    for size, want in zip(tensor.shape, slot["sizes"], strict=True):
        if isinstance(want, str):
            low, high = domain[want]
            if not low <= size <= high or sizes.setdefault(want, size) != size:
                return (f"has {want} =", size, f"outside {low} to {high} or unlike another {want}")
        elif size != want:
            return ("has shape", tuple(tensor.shape), "and was judged with", slot["sizes"])
    if slot["strides"] is None and not tensor.is_contiguous():
        return ("is not contiguous",)
    if slot["strides"] is not None and list(tensor.stride()) != slot["strides"]:
        return ("has strides", tensor.stride(), "and was judged with", slot["strides"])
    return ()
