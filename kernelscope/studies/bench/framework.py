"""Finding the framework of a target: numba-cuda or numba-cuda-mlir, on a GPU or on the null driver."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

#: Both frameworks read these when they are imported. A study launches 1x1 and, in some cases, with host arrays; advice
#: on that would cost time in the loop, differently in each version, and fill the error output.
_QUIET = {
    "NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0",
    "NUMBA_CUDA_WARN_ON_IMPLICIT_COPY": "0",
    "NUMBA_DISABLE_PERFORMANCE_WARNINGS": "1",
}
#: What a framework's package is called, and the packages whose versions matter to it.
_PACKAGES = {"numba-cuda": "numba_cuda", "numba-cuda-mlir": "numba_cuda_mlir"}
_MATTER = ("numba", "llvmlite", "cuda-core", "cuda-bindings", "cuda-pathfinder", "numpy")


@dataclass
class Framework:
    """A framework that is imported and has a device.

    Attributes
    ----------
    name : str
        ``numba-cuda`` or ``numba-cuda-mlir``.
    cuda : module
        ``numba.cuda`` or ``numba_cuda_mlir.cuda``.
    module : str
        The folder that `cuda` was imported from: what was measured.
    versions : dict of str to str
        Of the packages that matter, by name.
    is_dry_run : bool
        Whether the driver is the null driver.
    """

    name: str
    cuda: Any
    module: str
    versions: dict[str, str]
    is_dry_run: bool

    @property
    def synchronize(self) -> Callable[[], object]:
        """What waits for the device."""
        return self.cuda.synchronize

    def names(self) -> dict[str, Any]:
        """Return what a case's texts can use."""
        import numpy

        return {"cuda": self.cuda, "np": numpy}


def find(name: str | None, dryrun: str | None = None, library: str | None = None) -> Framework:
    """Import a framework, and ask its driver for a device.

    Parameters
    ----------
    name : str or None
        Which; None is the one that is installed, and numba-cuda where both are.
    dryrun : str or None
        The folder that holds the package kernelscope, if the null driver is to take the place of CUDA's.
    library : str or None
        The file of a null driver that is built.

    Raises
    ------
    RuntimeError
        If it cannot be imported, if it is the CUDA simulator, or if there is no device; the message says what to do.
    """
    os.environ.update(_QUIET)
    if dryrun:
        _enable_dry_run(dryrun, library)
    name = name or _installed()
    if name not in _PACKAGES:
        raise RuntimeError(f"framework {name!r} is not known; known: {', '.join(_PACKAGES)}")
    cuda = _imported(name)
    _refuse_simulator(cuda)
    is_dry_run = _has_null_driver()
    _check_device(cuda)
    return Framework(name, cuda, os.path.dirname(str(cuda.__file__)), _versions(name), is_dry_run)


def offer_kernelscope(folder: str) -> None:
    """Make ``import kernelscope`` find the package in a folder, and nothing else that is in that folder.

    Raises
    ------
    RuntimeError
        If it is not there.
    """
    if "kernelscope" in sys.modules:
        return
    spec = importlib.machinery.PathFinder.find_spec("kernelscope", [folder])
    if spec is None or spec.loader is None:
        raise RuntimeError(f"there is no package kernelscope in {folder}")
    sys.meta_path.append(_OnePackage(spec))


class _OnePackage:
    """A finder that knows one package; its modules are found in its folder as always."""

    def __init__(self, spec: importlib.machinery.ModuleSpec) -> None:
        self._spec = spec

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return self._spec if name == self._spec.name else None


def _enable_dry_run(folder: str, library: str | None) -> None:
    offer_kernelscope(folder)
    try:
        if library and os.path.exists(library):
            # What is loaded already is what the switch finds; nothing needs to be compiled.
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL | os.RTLD_NOW)
        importlib.import_module("kernelscope.dryrun").enable()
    except Exception as error:
        raise RuntimeError(f"the dry run does not start: {error}") from error


def _installed() -> str:
    for name, package in _PACKAGES.items():
        if importlib.util.find_spec(package) is not None:
            return name
    raise RuntimeError(f"neither numba-cuda nor numba-cuda-mlir is installed for {sys.executable}: "
                       "pip install 'numba-cuda[cu13]' there")


def _imported(name: str) -> Any:
    """Import a framework's module ``cuda``."""
    package = _PACKAGES[name]
    if importlib.util.find_spec(package) is None:
        raise RuntimeError(f"{name} is not installed for {sys.executable}: pip install '{name}[cu13]' there")
    try:
        if name == "numba-cuda-mlir":
            return importlib.import_module("numba_cuda_mlir.cuda")
        if importlib.util.find_spec("_numba_cuda_redirector") is not None:
            # A .pth file does this where numba-cuda is installed; a checkout on PYTHONPATH has none that is read.
            importlib.import_module("_numba_cuda_redirector")
        cuda = importlib.import_module("numba.cuda")
    except Exception as error:
        # An AttributeError where numba is newer than this numba-cuda knows, for one.
        raise RuntimeError(f"{name} cannot be imported by {sys.executable}, with {_said(name) or 'no package'}: "
                           f"{type(error).__name__}: {error}") from error
    if os.sep + package + os.sep not in str(cuda.__file__):
        raise RuntimeError(f"numba.cuda is {cuda.__file__} here, numba's own and not numba-cuda's; a study measures "
                           "numba-cuda: its _numba_cuda_redirector must be in that environment, as pip installs it")
    return cuda


def _refuse_simulator(cuda: Any) -> None:
    if ".simulator" in str(getattr(cuda.jit, "__module__", "")):
        raise RuntimeError(
            "the CUDA simulator is on (NUMBA_ENABLE_CUDASIM, or enable_cudasim in .numba_config.yaml): its launches "
            "say nothing about those of CUDA. Switch it off; to measure the host side without a GPU, use a dry run")


def _check_device(cuda: Any) -> None:
    """Raise if there is no device; make its context otherwise."""
    try:
        cuda.current_context()
    except Exception as error:
        text = " ".join(str(error).split())
        raise RuntimeError(f"there is no CUDA GPU to be had here ({type(error).__name__}: {text[:300]}); a dry run "
                           "(dry_run=True, or --dryrun) measures the host side without one") from error


def _has_null_driver() -> bool:
    """Whether the CUDA driver that this process has loaded is the null driver."""
    try:
        return hasattr(ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW), "kernelscope_dryrun_interface")
    except OSError:
        return False


def _versions(name: str) -> dict[str, str]:
    """Return the versions of Python and of what is installed; the framework's own is what its module says."""
    module: ModuleType = importlib.import_module(_PACKAGES[name])
    return {"python": platform.python_version(), **_versions_of(_MATTER),
            name: str(getattr(module, "__version__", "unknown"))}


def _versions_of(packages: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _said(name: str) -> str:
    return ", ".join(f"{package} {version}" for package, version in _versions_of((name, "numba", "numpy")).items())
