"""Switching the dry run on: its environment variables, and its state."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, NamedTuple

from kernelscope.errors import DryRunError

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Mapping
    from pathlib import Path


# The environment variables of the dry run.
#
# ================================== ================================================================= ========
# variable                           meaning                                                           default
# ================================== ================================================================= ========
# KERNELSCOPE_DRYRUN                 whether `enable_from_environment` enables it: 1, true, yes, on    off
# KERNELSCOPE_DRYRUN_DEVICES         how many devices there are, 1 to 8                                1
# KERNELSCOPE_DRYRUN_CC              their compute capability, as 90 or 9.0; a list gives one for      9.0
#                                    each device, and the last one again for the rest
# KERNELSCOPE_DRYRUN_DRIVER_VERSION  the CUDA version that the driver reports, as 13000 or 13.0        see below
# ================================== ================================================================= ========
#
# The driver version is 13.0 by default, or where only CUDA 12 is installed, that of its header. The driver reads the
# same variables when it is loaded; here they are checked first, so that an error can say what is wrong.
# ``CUDA_VISIBLE_DEVICES`` has no effect on the dry run.

CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
"""The compute capabilities that the null driver has figures for (``csrc/profiles.c``)."""

MAX_DEVICES = 8
OLDEST_DRIVER, NEWEST_DRIVER = 12000, 13990

_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"", "0", "false", "no", "off"})


class Settings(NamedTuple):
    """The settings, checked; `driver_version` is None where the variable does not say it."""

    devices: int
    capabilities: tuple[tuple[int, int], ...]
    driver_version: int | None


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Read the devices' number and capabilities, and the driver version.

    Raises
    ------
    DryRunError
        If one of them is out of range; the message names the variable, its value and what it may be.
    """
    devices = _read_devices(environ)
    return Settings(devices, _read_capabilities(environ, devices), _read_driver_version(environ))


def read_switch(environ: Mapping[str, str]) -> bool:
    """Read whether ``KERNELSCOPE_DRYRUN`` asks for the dry run."""
    value = environ.get("KERNELSCOPE_DRYRUN", "").strip().lower()
    if value not in _ON | _OFF:
        raise DryRunError(
            f"KERNELSCOPE_DRYRUN={value!r}: set it to 1, true, yes or on, or to 0, false, no, off or nothing"
        )
    return value in _ON


def _read_devices(environ: Mapping[str, str]) -> int:
    text = environ.get("KERNELSCOPE_DRYRUN_DEVICES", "")
    if not text:
        return 1
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_DEVICES):
        raise DryRunError(f"KERNELSCOPE_DRYRUN_DEVICES={text!r}: set it to a number from 1 to {MAX_DEVICES}")
    return int(text)


def _read_capabilities(environ: Mapping[str, str], devices: int) -> tuple[tuple[int, int], ...]:
    text = environ.get("KERNELSCOPE_DRYRUN_CC", "")
    listed = [_read_capability(part, text) for part in text.split(",")] if text else [(9, 0)]
    if len(listed) > MAX_DEVICES:
        raise DryRunError(
            f"KERNELSCOPE_DRYRUN_CC={text!r}: lists {len(listed)} capabilities, more than {MAX_DEVICES} devices"
        )
    return tuple(listed[min(i, len(listed) - 1)] for i in range(devices))


def _read_capability(part: str, text: str) -> tuple[int, int]:
    for major, minor in CAPABILITIES:
        if part in (f"{major}.{minor}", f"{major}{minor}"):
            return major, minor
    known = ", ".join(f"{major}.{minor}" for major, minor in CAPABILITIES)
    raise DryRunError(f"KERNELSCOPE_DRYRUN_CC={text!r}: {part!r} is none of {known}")


def _read_driver_version(environ: Mapping[str, str]) -> int | None:
    text = environ.get("KERNELSCOPE_DRYRUN_DRIVER_VERSION", "")
    if not text:
        return None
    major, dot, minor = text.partition(".")
    version = 0
    if (
        text.isascii()
        and major.isdigit()
        and len(major) <= 5
        and (not dot or (minor.isdigit() and len(minor) == 1))
    ):
        version = int(major) * 1000 + int(minor) * 10 if dot else int(major)
    if not OLDEST_DRIVER <= version <= NEWEST_DRIVER:
        raise DryRunError(
            f"KERNELSCOPE_DRYRUN_DRIVER_VERSION={text!r}: set it to a CUDA version from 12.0 to 13.9, "
            "as 13.0 or 13000"
        )
    return version


BANNER = "dry run: kernels did not execute"
"""What every output says that shows something of a dry run."""

_INTERFACE = 1
_lock = threading.Lock()


class DryRunStatus(NamedTuple):
    """State of the dry run in this process.

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
    """Calls of the null driver since it was loaded.

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
    """Replace CUDA's driver by the null driver, for the rest of this process.

    Call it before anything uses CUDA; numba and cuda.bindings may be imported already where no CUDA driver is
    installed. A second call does nothing. The environment variables ``KERNELSCOPE_DRYRUN_DEVICES``,
    ``KERNELSCOPE_DRYRUN_CC`` and ``KERNELSCOPE_DRYRUN_DRIVER_VERSION`` are read by the first call
    (see `kernelscope.dryrun.switch`).

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
    """Return the state of the dry run; before `enable`, the one that the present settings would give.

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
    """Return the calls of the null driver since it was loaded.

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
    from kernelscope.dryrun import control, triton

    control.refuse_late()
    library, path = _loaded_already() or _build_and_load(progress or _tell)
    if control.initialize(library) != 0:
        raise DryRunError(f"the dry-run driver {path} did not start; its message is on standard error")
    control.adapt(path)
    triton.adapt(library)
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
