"""kernelwright: verified faster kernels for PyTorch.

Read `core` for the nouns, then one room: `tasks` -> `propose` -> `backends` -> `judge` -> `runs`.
"""

__version__ = "0.1.0"
