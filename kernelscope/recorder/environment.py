"""The process and the machine on which a recording is made."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

from kernelscope import clock, dryrun
from kernelscope.recorder.launcher import launched_by

_PACKAGES = ("kernelscope", "numba-cuda", "numba", "numba-cuda-mlir", "cuda-core", "cuda-bindings", "cuda-cccl",
             "quadrants", "triton", "torch", "cuda-tile", "numpy", "nvtx", "ipython")
# Of /proc/cpuinfo, which has an entry for each core.
_MOST_BYTES = 8192
#: When this module was loaded: with the pid, what tells a process from every other, a fork's child included.
_BEGAN = clock.now()


def environment() -> dict[str, Any]:
    """Return what a recording's metadata says about this process and machine."""
    return {
        "dry_run": dryrun.is_enabled(),
        "python": platform.python_version(),
        "platform": _platform(),
        "cpus": os.cpu_count(),
        "packages": _versions().copy(),
        "process": process(),
    }


def _platform() -> str:
    """Return what `platform.platform` does, which starts another process to find the processor's name."""
    system = os.uname()
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else None
    if not libc:
        return platform.platform()
    return f"{system.sysname}-{system.release}-{system.machine}-with-{libc.replace(' ', '')}"


def process() -> dict[str, Any]:
    """Return what is known of this process, by columns of the table ``processes``."""
    return {"host": platform.node() or None, "pid": os.getpid(), "parent_pid": os.getppid(), "start_ns": _BEGAN,
            **launched_by(os.environ, os.getpid()), **_started()}


def _started() -> dict[str, Any]:
    """Return what the process itself knows of what started it, by columns of the table ``processes``."""
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        return {"launcher": "multiprocessing", "worker": processes.current_process().name}
    kernel = getattr(getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)(), "kernel", None)
    engine = getattr(kernel, "engine_id", None)  # ipyparallel's
    if isinstance(engine, int) and engine >= 0:
        return {"launcher": "ipyparallel", "rank": engine, "worker": f"engine {engine}"}
    return {}


def processor(root: Path = Path("/")) -> str:
    """Return the model of the processor; without `root`, of this machine's."""
    try:
        with open(root / "proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        text = ""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "cpu model") and value.strip():
            return value.strip()
    return platform.processor() or platform.machine() or "unknown"


@functools.cache
def _versions() -> dict[str, str]:
    versions: dict[str, str] = {}
    for package in _PACKAGES:
        # A folder of metadata that lost its METADATA has no version: a KeyError, or None before Python 3.15.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, KeyError):
            versions[package] = importlib.metadata.version(package)
    return {package: version for package, version in versions.items() if version}


def shown_filename(path: str | None) -> str | None:
    """Return a notebook cell's own name, ``In[3]``, for the temporary file that its code pretends to come from."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    namer = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = namer(path) if namer is not None and path else None
    return named[1] if named else path
