"""The setting of this process: what a calibration must have been measured with to hold here."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
from pathlib import Path

import kernelscope
from kernelscope.calibration.model import Setting

# Of a file that has a part for each processor core, of which the first says it.
_READ = 8192


def setting(gpu: str | None, backend: str, detail: str) -> Setting:
    """Return this process' setting.

    Parameters
    ----------
    gpu : str or None
        The GPU's name; None on the dry run.
    backend, detail : str
        As `Setting` has them.
    """
    return Setting(platform.node() or "unnamed", processor(), platform.python_version(), kernelscope.__version__,
                   _numba_cuda(), gpu, backend, detail)


def processor(root: Path = Path("/")) -> str:
    """Return the model of the processor; without `root`, of this machine's."""
    try:
        with open(root / "proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            text = file.read(_READ)
    except OSError:
        text = ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


@functools.cache
def _numba_cuda() -> str:
    try:
        return importlib.metadata.version("numba-cuda")
    except importlib.metadata.PackageNotFoundError:
        return "none"
