"""The native recorder's extension module, where it was compiled for this Python.

It imports nothing of the package, and nothing here needs it: the recorder that is written in Python stands in for it.
"""

from __future__ import annotations

import importlib
import sysconfig
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).parent
_MODULE = f"{__name__}._core"


def _load() -> tuple[ModuleType | None, str | None]:
    try:
        return importlib.import_module(_MODULE), None
    except ImportError as error:
        # One of that very name is what nobody has compiled; any other comes from a library that is there and unfit.
        absent = isinstance(error, ModuleNotFoundError) and error.name == _MODULE
        return None, None if absent else str(error)


#: The extension module, or None where there is none for this Python.
core, _failure = _load()


def why_missing() -> str | None:
    """Say why there is no native recorder here and what brings it; None where there is one."""
    if core is not None:
        return None
    if _failure is not None:
        return f"it does not load: {' '.join(_failure.split())}; compile it anew with:  {command()}"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    others = sorted(path.name for path in _FOLDER.glob("_core.*.so"))
    beside = f", but {', '.join(others)}" if others else ""
    return f"it is not compiled for this Python: {_FOLDER} has no _core{suffix}{beside}; with a C compiler:  {command()}"


def command() -> str:
    """Return the command that compiles the native recorder, for the way in which the package is installed."""
    checkout = _FOLDER.parents[1]
    if (checkout / "setup.py").is_file():
        return f"pip install --editable {checkout}"
    return "pip install --force-reinstall --no-deps --no-cache-dir --no-binary kernelscope kernelscope"
