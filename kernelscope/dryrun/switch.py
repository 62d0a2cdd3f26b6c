"""Switching the dry run on, and asking what it is and did."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from kernelscope.dryrun.settings import Settings, read_settings, read_switch
from kernelscope.errors import DryRunError

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable
    from pathlib import Path

BANNER = "dry run: kernels did not execute"
"""What every output says that shows something of a dry run."""

_INTERFACE = 1
_lock = threading.Lock()


class DryRunStatus(NamedTuple):
    """What the dry run is in this process.

    Attributes
    ----------
    enabled
        Whether the null driver is in place.
    library
        The path of the null driver; None before `enable`.
    devices
        How many devices it has.
    compute_capabilities
        Their compute capabilities, one for each device: ``((9, 0),)``.
    driver_version
        The CUDA version that the driver reports, as CUDA writes it: 13000 is 13.0. None before `enable`, unless
        ``KERNELSCOPE_DRYRUN_DRIVER_VERSION`` says it.
    """

    enabled: bool
    library: str | None
    devices: int
    compute_capabilities: tuple[tuple[int, int], ...]
    driver_version: int | None


class DryRunCounters(NamedTuple):
    """What the null driver was asked for since it was loaded.

    Attributes
    ----------
    launches
        Kernel launches outside stream captures.
    captured_launches
        Kernel launches that became nodes of a graph.
    graph_launches
        Launches of executable graphs.
    graph_kernels
        Kernel nodes in all graph launches together.
    calls
        Calls of each driver function, all versions of it together: ``{"cuLaunchKernelEx": 3}``.
    missing
        Calls of functions that the null driver does not have; each returned ``CUDA_ERROR_NOT_SUPPORTED``.
    """

    launches: int
    captured_launches: int
    graph_launches: int
    graph_kernels: int
    calls: dict[str, int]
    missing: dict[str, int]


class _Enabled(NamedTuple):
    library: ctypes.CDLL
    path: str
    settings: Settings
    driver_version: int


_enabled: _Enabled | None = None


def enable(progress: Callable[[str], None] | None = None) -> DryRunStatus:
    """Put the null driver in the place of CUDA's driver, for the rest of this process.

    Call it before anything uses CUDA; numba and cuda.bindings may be imported already where no CUDA driver is
    installed. A second call does nothing. The environment variables ``KERNELSCOPE_DRYRUN_DEVICES``,
    ``KERNELSCOPE_DRYRUN_CC`` and ``KERNELSCOPE_DRYRUN_DRIVER_VERSION`` are read by the first call
    (see `kernelscope.dryrun.settings`).

    Parameters
    ----------
    progress
        Called with one line when the driver must be compiled, which takes some seconds, once for a machine. By
        default the line goes to standard error.

    Returns
    -------
    DryRunStatus
        The same as `status` returns.

    Raises
    ------
    DryRunError
        If a CUDA driver is already loaded in this process, if numba_cuda_mlir was imported before, if the null driver
        cannot be built, or if a setting is out of range.
    """
    global _enabled
    with _lock:
        if _enabled is None:
            _enabled = _load(progress)
    return status()


def enable_from_environment() -> bool:
    """Call `enable` if the environment variable ``KERNELSCOPE_DRYRUN`` asks for it.

    Returns
    -------
    bool
        Whether it did: True for ``1``, ``true``, ``yes`` or ``on``, False for ``0``, ``false``, ``no``, ``off`` or
        nothing. Child processes inherit the variable.

    Raises
    ------
    DryRunError
        If the variable has another value, or as `enable` does.
    """
    wanted = read_switch(os.environ)
    if wanted:
        enable()
    return wanted


def is_enabled() -> bool:
    """Return whether the null driver is in place in this process."""
    return _enabled is not None


def status() -> DryRunStatus:
    """Return what the dry run is in this process; before `enable`, what it would be with the present settings.

    Raises
    ------
    DryRunError
        If it is not enabled yet and a setting is out of range.
    """
    if _enabled is None:
        settings = read_settings(os.environ)
        return DryRunStatus(False, None, settings.devices, settings.capabilities, settings.driver_version)
    settings = _enabled.settings
    return DryRunStatus(True, _enabled.path, settings.devices, settings.capabilities, _enabled.driver_version)


def counters() -> DryRunCounters:
    """Return what the null driver was asked for since it was loaded.

    Raises
    ------
    DryRunError
        If the dry run is not enabled.
    """
    if _enabled is None:
        raise DryRunError("the dry run is not enabled: call kernelscope.dryrun.enable() first")
    from kernelscope.dryrun import control

    totals = control.totals(_enabled.library)
    return DryRunCounters(
        *totals, calls=control.calls(_enabled.library), missing=control.missing(_enabled.library)
    )


def _load(progress: Callable[[str], None] | None) -> _Enabled:
    if sys.platform != "linux":
        raise DryRunError(f"the dry run needs Linux; this is {sys.platform}")
    settings = read_settings(os.environ)
    from kernelscope.dryrun import adapt, control

    adapt.refuse_late()
    library, path = _loaded_already() or _build_and_load(progress or _tell)
    if control.initialize(library) != 0:
        raise DryRunError(f"the dry-run driver {path} did not start; its message is on standard error")
    adapt.adapt()
    return _Enabled(library, path, settings, control.driver_version(library))


def _loaded_already() -> tuple[ctypes.CDLL, str] | None:
    """Return the null driver if this process has it already, None without any driver, and refuse another one."""
    import ctypes

    try:
        library = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW | os.RTLD_GLOBAL)
    except OSError:
        return None
    path = _mapped_driver() or "libcuda.so.1"
    if not hasattr(library, "kernelscope_dryrun_interface"):
        raise DryRunError(
            f"a CUDA driver is already loaded in this process ({path}), and cannot be replaced: restart the kernel, "
            "and call kernelscope.dryrun.enable() before anything imports numba.cuda, torch or cupy"
        )
    return library, path


def _build_and_load(progress: Callable[[str], None]) -> tuple[ctypes.CDLL, str]:
    from kernelscope.dryrun.build import build

    path = build(progress)
    try:
        return _open(path), str(path)
    except OSError:
        path = build(progress, rebuild=True)  # the file in the cache was damaged
    try:
        return _open(path), str(path)
    except OSError as error:
        raise DryRunError(f"the dry-run driver {path} was built and does not load: {error}") from error


def _open(path: Path) -> ctypes.CDLL:
    """Load the null driver so that a later search for ``libcuda.so.1`` finds it, by its soname."""
    import ctypes

    library = ctypes.CDLL(str(path), mode=os.RTLD_GLOBAL | os.RTLD_NOW)
    if not hasattr(library, "kernelscope_dryrun_interface") or (
        library.kernelscope_dryrun_interface() != _INTERFACE
    ):
        raise OSError(f"{path} is not the dry-run driver")
    return library


def _mapped_driver() -> str | None:
    """Return the file of the CUDA driver in this process' memory map."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if os.path.basename(path).startswith("libcuda.so"):
                return path
    return None


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
