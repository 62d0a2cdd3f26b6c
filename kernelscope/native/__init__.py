"""The recorder: its C extension `_core`, the log of launches, and the layout of a journal.

Importing this package does not load the extension: ``native.core`` does, on first access. So recordings
open, and journals are found, without it.
"""

from __future__ import annotations

import importlib
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from kernelscope.errors import KernelScopeError

if TYPE_CHECKING:
    from kernelscope.native import _core as core

__all__ = ["command", "core", "why_old"]

_FOLDER = Path(__file__).parent


def __getattr__(name: str) -> ModuleType:
    """Load the extension when ``core`` is first accessed.

    Raises
    ------
    KernelScopeError
        It is not compiled for this Python, or does not load.
    """
    if name != "core":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        loaded = importlib.import_module(f"{__name__}._core")
    except ImportError as error:
        raise KernelScopeError(f"nothing can be recorded: {_why_missing(error)}") from None
    globals()["core"] = loaded
    return loaded


def _why_missing(error: ImportError) -> str:
    wanted = f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    if (_FOLDER / wanted).exists():
        return f"KernelScope's C extension {wanted} does not load ({' '.join(str(error).split())}): run {command()}"
    others = ", ".join(sorted(path.name for path in _FOLDER.glob("_core.*.so")))
    there = f", but {others}" if others else ""
    return (f"KernelScope's C extension is not compiled for this Python, {_FOLDER} has no {wanted}{there}: "
            f"run {command()}")


def why_old() -> str | None:
    """Say that the extension is older than its sources, as in a checkout after an update, and what compiles it.

    None where it is not, and where the sources are not there.
    """
    compiled = Path(core.__file__ or "")
    if compiled.parent != _FOLDER:
        return None
    made = compiled.stat().st_mtime
    newer = sorted(source.name for source in (_FOLDER / "csrc").glob("*.[ch]") if source.stat().st_mtime > made)
    return f"its sources are newer ({', '.join(newer)}): {command()}" if newer else None


def command() -> str:
    """Return the command that compiles the extension, for the way in which the package is installed."""
    checkout = _FOLDER.parents[1]
    if (checkout / "setup.py").is_file():
        return f"pip install --editable {checkout}"
    return "pip install --force-reinstall --no-deps --no-cache-dir --no-binary kernelscope kernelscope"
