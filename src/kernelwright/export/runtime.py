"""Builds, guards and tests one kernel: each exported file carries this text."""

import contextlib
import copy
import ctypes
import hashlib
import os
import shutil
import statistics
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

DTYPES = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
]


class KernelNotUsed(UserWarning):
    """The reference ran in the kernel's place; the text says why."""


class _Tensor(ctypes.Structure):
    """`kw_tensor` of kernelwright.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
    )


class Kernel:
    """A compiled kernel that runs in a module's place where it was judged, and nowhere else.

    `calls` and `fallbacks` count what really ran. The first call at each shape is the reference's:
    it shows the layout of the outputs.
    """

    def __init__(self, *, sources, entry, flags, links, slots, scalars, domain, training):
        self._sources, self._entry, self._flags, self._links = sources, entry, flags, links
        self._slots, self._scalars, self._domain = slots, scalars, domain
        self._training = training
        self._function, self._broken = None, ""
        self._plans, self._told = {}, set()
        self.calls = self.fallbacks = 0

    def run(self, model, reference, arguments):
        """The kernel's outputs, shaped like the reference's; or the reference's own."""
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        tensors += _module_tensors(model)
        why = self.refusal(model, arguments, tensors) or self._build()
        if why:
            return self._fall_back(why, reference, arguments)
        key = tuple((tuple(t.shape), t.stride()) for t in tensors)
        plan = self._plans.get(key)
        if plan is None:
            result = reference(*arguments)
            self._plans[key] = _Plan(tensors, result)
            return result
        self.calls += 1
        return plan.call(self._function, tensors)

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

    def _build(self):
        """Compiles and loads at first use. Returns why it cannot, for good; empty where it did."""
        if self._function is None and not self._broken:
            try:
                library = ctypes.CDLL(str(self._compiled()))
                with contextlib.suppress(AttributeError):  # a kernel without OpenMP
                    library.omp_set_num_threads(torch.get_num_threads())
                self._function = getattr(library, self._entry)
            except (OSError, AttributeError, RuntimeError) as error:
                self._broken = str(error)
        return self._broken

    def _compiled(self):
        compiler = shutil.which(os.environ.get("CXX", "g++"))
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line for line in lines if line.startswith(("flags", "Features"))), "")
        content = repr((self._sources, self._flags, self._links, cpu))
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelwright"
        library = home / "exported" / (hashlib.sha256(content.encode()).hexdigest()[:24] + ".so")
        if library.exists():
            return library
        if compiler is None:
            raise RuntimeError("it is compiled at first use and there is no g++; install g++")
        library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory() as folder:
            for name, text in self._sources.items():
                Path(folder, name).write_text(text)
            units = [name for name in self._sources if name.endswith((".cpp", ".cc"))]
            command = [compiler, *self._flags, "-I.", *units, "-o", "out.so", *self._links]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{compiler} failed: {done.stderr.strip()[:300]}")
            partial = library.with_suffix(f".{os.getpid()}")
            shutil.copyfile(Path(folder, "out.so"), partial)
            partial.rename(library)  # another process may be doing the same
        return library


class _Plan:
    """What a call at one shape needs, made once: the structures and the outputs' layout."""

    def __init__(self, tensors, result):
        outputs, self._tree = tree_flatten(result)
        self._layouts = [(tuple(t.shape), t.stride(), t.dtype) for t in outputs]
        self._inputs, self._outputs = _structures(tensors), _structures(outputs)

    def call(self, function, tensors):
        made = [torch.empty_strided(s, st, dtype=d) for s, st, d in self._layouts]
        inputs = type(self._inputs).from_buffer_copy(self._inputs)  # two threads may call at once
        outputs = type(self._outputs).from_buffer_copy(self._outputs)
        for structure, tensor in zip((*inputs, *outputs), (*tensors, *made), strict=True):
            structure.data = tensor.data_ptr()
        function(inputs, len(inputs), outputs, len(outputs))
        return tree_unflatten(made, self._tree)


def _structures(tensors):
    array = (_Tensor * len(tensors))()
    for structure, tensor in zip(array, tensors, strict=True):
        structure.dtype = DTYPES.index(str(tensor.dtype).removeprefix("torch."))
        structure.ndim = tensor.ndim
        structure.sizes[: tensor.ndim] = tensor.shape
        structure.strides[: tensor.ndim] = tensor.stride()
    return array


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
