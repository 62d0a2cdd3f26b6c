"""The native recorder's extension module, where it was compiled for this Python.

It imports nothing of the package, and nothing here needs it: the recorder that is written in Python stands in for it.
"""

from __future__ import annotations

import importlib
import sysconfig
from pathlib import Path
from types import ModuleType

_FOLDER = Path(__file__).parent


def why_missing() -> str | None:
    """Say why there is no native recorder here, and the command that brings it; None where there is one."""
    if core is not None:
        return None
    wanted = f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    if (_FOLDER / wanted).exists():
        return f"it does not load: {_failure}; compile it anew: {command()}"
    others = ", ".join(sorted(path.name for path in _FOLDER.glob("_core.*.so")))
    there = f", but {others}" if others else ""
    return f"it is not compiled for this Python: {_FOLDER} has no {wanted}{there}; with a C compiler: {command()}"


def why_old() -> str | None:
    """Say that the native recorder is older than its sources, as in a checkout after an update, and what compiles it.

    None where it is not, where the sources are not there, and where there is no native recorder.
    """
    compiled = core.__file__ if core is not None else None
    if compiled is None or Path(compiled).parent != _FOLDER:
        return None
    made = Path(compiled).stat().st_mtime
    newer = sorted(source.name for source in (_FOLDER / "csrc").glob("*.[ch]") if source.stat().st_mtime > made)
    return f"its sources are newer ({', '.join(newer)}): {command()}" if newer else None


def command() -> str:
    """Return the command that compiles the native recorder, for the way in which the package is installed."""
    checkout = _FOLDER.parents[1]
    if (checkout / "setup.py").is_file():
        return f"pip install --editable {checkout}"
    return "pip install --force-reinstall --no-deps --no-cache-dir --no-binary kernelscope kernelscope"


def _load() -> tuple[ModuleType | None, str]:
    try:
        return importlib.import_module(f"{__name__}._core"), ""
    except ImportError as error:
        return None, " ".join(str(error).split())


#: The extension module, or None where there is none for this Python.
core, _failure = _load()
