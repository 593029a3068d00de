"""Compiles a C++ kernel at first use and calls it: part of exported files with one."""

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch


class _Tensor(ctypes.Structure):
    """`kw_tensor` of kernelwright.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("sizes", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
    )


class Native:
    """The sources of a kernel behind the C ABI of kernelwright.h.

    With `prebuilt`, a library that needs the processor's features `needs`: nothing is compiled
    where they are all there.
    """

    allocates = True
    """Its outputs are fresh memory."""

    def __init__(self, *, sources, entry, flags, links, dtypes, prebuilt=None, needs=()):
        self._dtypes = dtypes
        self._sources, self._entry, self._flags, self._links = sources, entry, flags, links
        self._prebuilt, self._needs = prebuilt, needs

    def load(self):
        """Raises RuntimeError or OSError where there is no library for this machine."""
        library = ctypes.CDLL(str(self._library()))
        with contextlib.suppress(AttributeError):  # a kernel without OpenMP
            library.omp_set_num_threads(torch.get_num_threads())
        self._function = getattr(library, self._entry)

    def prepare(self, tensors, outputs):
        """A call for tensors and outputs laid out like these; it allocates its outputs."""
        layouts = [(tuple(t.shape), t.stride(), t.dtype) for t in outputs]
        ins, outs = _structures(tensors, self._dtypes), _structures(outputs, self._dtypes)

        def call(tensors):
            made = [torch.empty_strided(s, st, dtype=d) for s, st, d in layouts]
            inputs = type(ins).from_buffer_copy(ins)  # two threads may call at once
            results = type(outs).from_buffer_copy(outs)
            for structure, tensor in zip((*inputs, *results), (*tensors, *made), strict=True):
                structure.data = tensor.data_ptr()
            self._function(inputs, len(inputs), results, len(results))
            return made

        return call

    def _library(self):
        """The prebuilt one if no instruction in it is illegal here; else a compiled one."""
        if self._prebuilt is None:
            return self._compiled()
        here = _processor().partition(":")[2].split()
        missing = [flag for flag in self._needs if flag not in here]
        if not missing:
            return self._prebuilt
        try:
            return self._compiled()
        except RuntimeError as error:
            lacks = f"this processor lacks {', '.join(missing)}, which the built kernel needs"
            raise RuntimeError(f"{lacks}; {error}") from None

    def _compiled(self):
        """Once per machine."""
        compiler = shutil.which(os.environ.get("CXX", "g++"))
        content = repr((self._sources, self._flags, self._links, _processor()))
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


def _processor():
    """The line of /proc/cpuinfo that lists the processor's features."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _structures(tensors, dtypes):
    array = (_Tensor * len(tensors))()
    for structure, tensor in zip(array, tensors, strict=True):
        structure.dtype = dtypes.index(str(tensor.dtype).removeprefix("torch."))
        structure.ndim = tensor.ndim
        structure.sizes[: tensor.ndim] = tensor.shape
        structure.strides[: tensor.ndim] = tensor.stride()
    return array
