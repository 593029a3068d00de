"""Guards and tests one kernel: part of every exported file."""

import copy
import statistics
import time
import warnings

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten


class KernelNotUsed(UserWarning):
    """The reference ran in the kernel's place; the text says why."""


class Kernel:
    """A compiled kernel that runs in a module's place where it was judged, and nowhere else.

    `calls` and `fallbacks` count what really ran. The first call at each shape is the reference's:
    it shows the layout of the outputs.
    """

    def __init__(self, engine, *, slots, scalars, domain, training):
        self._engine, self._training = engine, training
        self._slots, self._scalars, self._domain = slots, scalars, domain
        self._loaded, self._broken = False, ""
        self._plans, self._told = {}, set()
        self.calls = self.fallbacks = 0

    def run(self, model, reference, arguments):
        """The kernel's outputs, shaped like the reference's; or the reference's own."""
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        tensors += _module_tensors(model)
        why = self.refusal(model, arguments, tensors) or self._load()
        if why:
            return self._fall_back(why, reference, arguments)
        key = tuple((tuple(t.shape), t.stride()) for t in tensors)
        plan = self._plans.get(key)
        if plan is None:
            result = reference(*arguments)
            outputs, tree = tree_flatten(result)
            self._plans[key] = self._engine.prepare(tensors, outputs), tree
            return result
        self.calls += 1
        call, tree = plan
        return tree_unflatten(call(tensors), tree)

    def refusal(self, model, arguments, tensors):
        """Why the kernel may not run on these; empty where it may."""
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return "it has no gradient: call it under torch.no_grad() or torch.inference_mode()"
        if torch.is_autocast_enabled("cpu"):
            return "autocast would change the precision it was judged at"
        if self._training is not None and model.training != self._training:
            return f"it was judged with model.training == {self._training}"
        scalars = [value for value in arguments if not isinstance(value, torch.Tensor)]
        if scalars != self._scalars:
            return f"it was judged with {self._scalars} among the arguments, not {scalars}"
        if len(tensors) != len(self._slots):
            return f"it takes {len(self._slots)} tensors, not {len(tensors)}"
        sizes = {}
        for tensor, slot in zip(tensors, self._slots, strict=True):
            why = _mismatch(tensor, slot, sizes, self._domain)
            if why:
                return f"{slot['name']} {why}"
        return ""

    def _fall_back(self, why, reference, arguments):
        self.fallbacks += 1
        if why not in self._told:
            self._told.add(why)
            warnings.warn(f"the reference runs instead of the kernel: {why}", KernelNotUsed, 4)
        return reference(*arguments)

    def _load(self):
        """Why the kernel cannot run here, for good; empty where it was built and loaded."""
        if not self._loaded and not self._broken:
            try:
                self._engine.load()
                self._loaded = True
            except (OSError, AttributeError, RuntimeError) as error:
                self._broken = str(error)
        return self._broken


def _mismatch(tensor, slot, sizes, domain):
    """How a tensor differs from what was judged. A named size is the same wherever it stands."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return f"is on {tensor.device}, {tensor.layout}; it was judged on strided cpu tensors"
    if str(tensor.dtype) != f"torch.{slot['dtype']}":
        return f"is {tensor.dtype}, it was judged as torch.{slot['dtype']}"
    if tensor.ndim != len(slot["sizes"]):
        return f"has {tensor.ndim} dimensions, it was judged with {len(slot['sizes'])}"
    for size, want in zip(tensor.shape, slot["sizes"], strict=True):
        if isinstance(want, str):
            low, high = domain[want]
            if not low <= size <= high or sizes.setdefault(want, size) != size:
                return f"has {want} = {size}, outside {low} to {high} or unlike another {want}"
        elif size != want:
            return f"has shape {list(tensor.shape)}, it was judged with {slot['sizes']}"
    if slot["strides"] is None and not tensor.is_contiguous():
        return "is not contiguous"
    if slot["strides"] is not None and list(tensor.stride()) != slot["strides"]:
        return f"has strides {list(tensor.stride())}, it was judged with {slot['strides']}"
    return ""


def _module_tensors(model):
    """Parameters, buffers, then plain tensor attributes, each once."""
    found = [*model.parameters(), *model.buffers()]
    seen = {id(tensor) for tensor in found}
    for module in model.modules():
        for value in vars(module).values():
            if isinstance(value, torch.Tensor) and id(value) not in seen:
                seen.add(id(value))
                found.append(value)
    return found


def self_test(kernel, reference, mine, inputs, pairs=20):
    """Compares with the reference in fp64, then times both in turns. Exit status: 0 if right."""
    with torch.no_grad(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", KernelNotUsed)
        theirs = tree_flatten(reference(*inputs))[0]
        mine(*inputs)
        got = tree_flatten(mine(*inputs))[0]
        if not kernel.calls:
            print(f"FAILED: {told[-1].message if told else 'the kernel did not run'}")
            return 1
        exact = [v.double() if _is_float(v) else v for v in inputs]
        truth = tree_flatten(copy.deepcopy(reference).double()(*exact))[0]
        for at, (a, b, t) in enumerate(zip(got, theirs, truth, strict=True)):
            error, own = ((x.double() - t.double()).abs().max().item() for x in (a, b))
            allowed = 8 * own + 1e-5 * t.double().abs().max().item() if _is_float(a) else 0
            if not error <= allowed or a.shape != b.shape:
                print(f"FAILED: output {at} is off by {error:.3g}, the reference by {own:.3g}")
                return 1
            print(f"output {at}: error {error:.3g}; the reference's own {own:.3g}")
        times = [[_seconds(m, inputs) for m in (reference, mine)] for _ in range(pairs)]
        ratio = statistics.median(a / b for a, b in times)
        print(f"right; {ratio:.2f}x over the reference in eager mode here ({pairs} pairs)")
    return 0


def _is_float(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _seconds(module, inputs):
    started = time.perf_counter()
    module(*inputs)
    return time.perf_counter() - started
