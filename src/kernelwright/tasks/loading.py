"""Imports the Python module that a reference lives in, and says clearly why it cannot."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kernelwright.tasks.refuse import one_line, refuse


def import_target(target: str) -> ModuleType:
    """Imports a file or a dotted module.

    Args:
        target: absolute path of a `.py` file, or a dotted module name.

    Raises:
        TaskUnusable: it does not import, or needs a missing package.
    """
    try:
        if target.endswith(".py"):
            return _import_file(Path(target))
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        module = error.name or "?"
        package = module.partition(".")[0]
        if package in sys.modules:
            refuse(target, f"it needs the module {module!r}, which {package!r} does not have")
        refuse(target, f"it needs the package {package!r}", f"pip install {package}")
    except (Exception, SystemExit) as error:
        refuse(target, f"it does not import: {_where(error, target)}{one_line(error)}")


def _import_file(path: Path) -> ModuleType:
    name = "kernelwright_task_" + hashlib.sha256(str(path).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # a task file may import its neighbours
    sys.modules[name] = module  # dataclasses and pickle look their module up by name
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _where(error: BaseException, target: str) -> str:
    if isinstance(error, SyntaxError):
        return ""  # its text names the line
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == target]
    return f"line {frames[-1].lineno}: " if frames else ""
