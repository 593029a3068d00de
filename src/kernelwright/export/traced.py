"""Calls a graph of ATen operators through torch.compile: part of exported files with one."""

import os
import shutil

import torch


class Traced:
    """A function of the slot tensors that returns the list of outputs."""

    allocates = False

    def __init__(self, function):
        self._function = function

    def load(self):
        """torch.compile works when first called; raises RuntimeError where it could not."""
        if shutil.which(os.environ.get("CXX", "g++")) is None:
            raise RuntimeError("it goes through torch.compile and there is no g++; install g++")
        self._compiled = torch.compile(self._function)

    def prepare(self, tensors, outputs):
        """A call for tensors laid out like these."""
        return lambda tensors: list(self._compiled(*tensors))
