"""Answer what a study asks for, in the process of a target: find the framework, prepare cases, time them.

The protocol: JSON objects, one a line, in over one pipe and out over another.

Requests have a key ``do``; each is answered by one object. A request that went well is answered with ``ok`` true and
what it asked for; one that did not with ``ok`` false, ``kind`` (``unavailable`` where a target cannot have what was
asked for, else ``error``), ``error`` (one line) and ``traceback``.

========== ===================================================== =====================================================
do         asks with                                             answers with
========== ===================================================== =====================================================
hello      framework, dryrun, library, pin, kernelscope          framework, versions, module, gpu, is_dry_run,
                                                                 pinned_to, pin_error, clock_resolution_ns,
                                                                 clock_read_ns, sees_waits, python
prepare    case (the fields of `Case`), batch_ms                 loops, warm_batches, stable, ns_per_loop,
                                                                 sync_share, limited
batch      case (its name), loops, core, quiet_ns                host_ns, sync_ns, waited_ns, reference_ns, core
noise      ms, core                                              lost, reference_ns
anatomy    case (the fields of `Case`), and what `anatomy` takes what `anatomy` answers
bye                                                              nothing; the process ends
========== ===================================================== =====================================================

``hello`` comes first. Its fields are all optional: ``framework`` names one of the two where both are installed;
``dryrun`` is the folder that holds the package kernelscope, if the null driver is to take the place of CUDA's, and
``library`` the file of a null driver that is built already, so that the target needs neither compiler nor ``cuda.h``;
``pin`` is a list of processor cores; ``kernelscope`` is the folder of KernelScope for the cases that need it.

Of the cores of ``pin`` the process is on one at a time. ``core`` is where to begin and ``quiet_ns`` what the reference
of `quiet` may take there: else the process goes on to other cores, and answers on which one it was.

The process pins itself at the first request that is timed and not before: many processes may start, compile and warm up
side by side, on all cores, before one is timed at a time on one core.

Two processes of one version differ by some per cent. Neither a fixed hash seed nor a fixed layout of the address space
made them differ less (30 processes of each, medians of 15 batches: standard deviations of 1.0 to 1.7 % with and
without), and huge pages did not either. So nothing of that is fixed: it would choose one layout for all, and take what
differs by it for a difference of the versions.

It ends when the pipe of requests is closed, whatever the target has running.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from . import timing
from .timing import CaseError, Quiet, TimedCase, Unavailable, freeze_garbage, warm_up


class Bench:
    """The state of a benchmark process: the framework and the prepared cases."""

    def __init__(self) -> None:
        self.framework: Framework | None = None
        self.cases: dict[str, TimedCase] = {}
        self.quiet = Quiet(None)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request.

        Returns
        -------
        dict
            The answer, ready for JSON. Whatever a target's code raises becomes one.
        """
        known: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "hello": self.hello, "prepare": self.prepare, "batch": self.batch, "noise": self.noise,
            "anatomy": self.anatomy, "bye": lambda _: {},
        }
        try:
            do = request.get("do")
            if do not in known:
                raise ValueError(f"a request to do {do!r} is not known; known: {', '.join(known)}")
            return {"ok": True, **known[do](request)}
        except Unavailable as error:
            return _refusal("unavailable", error)
        except BaseException as error:
            # Also SystemExit and what else a case may raise: it must not end the process without a word.
            return _refusal("error", error)

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Find the framework and the GPU, and return their description."""
        if request.get("kernelscope"):
            offer_kernelscope(request["kernelscope"])
        self.framework = found = find(request.get("framework"), request.get("dryrun"), request.get("library"))
        cores, pin_error = timing.may_pin(request.get("pin"))
        self.quiet = Quiet(cores)
        resolution_ns, read_ns = timing.clock()
        return {
            "framework": found.name, "versions": found.versions, "module": found.module,
            "gpu": timing.gpu(found.is_dry_run), "is_dry_run": found.is_dry_run, "pinned_to": cores,
            "pin_error": pin_error, "clock_resolution_ns": resolution_ns, "clock_read_ns": read_ns,
            "sees_waits": timing.counts_waits(), "python": platform.python_version(),
        }

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compile a case, warm it up, and find how many loops a batch takes."""
        case = self.case(request["case"])
        case.set_up()
        case.batch(1)  # compiles, and leaves what the collector would walk before each of the batches that follow
        freeze_garbage()
        warm = warm_up(case, float(request.get("batch_ms") or 10))
        self.cases[case.name] = case
        return warm._asdict()

    def batch(self, request: dict[str, Any]) -> dict[str, Any]:
        """Time a batch of a case that was prepared."""
        name = request["case"]
        if name not in self.cases:
            raise ValueError(f"case {name!r} is not prepared; prepared: {', '.join(self.cases) or 'none'}")
        moved = self.quiet.seek(request.get("core"), request.get("quiet_ns"))
        return {**self.cases[name].batch(int(request["loops"]), moved)._asdict(), "core": self.quiet.core}

    def noise(self, request: dict[str, Any]) -> dict[str, Any]:
        """Measure which share of its time a loop that does nothing loses to others, and what one takes at best."""
        self.quiet.go(request.get("core"))
        return {"lost": timing.noise(float(request.get("ms") or 50)), "reference_ns": self.quiet.best_ns()}

    def anatomy(self, request: dict[str, Any]) -> dict[str, Any]:
        """Split one launch of a case into its parts."""
        from . import breakdown  # pyright: ignore  (written for this one verb, and not loaded without it)

        return breakdown.answer(self, request)

    def case(self, fields: dict[str, Any]) -> TimedCase:
        """Return a case of this target that is not set up yet.

        Raises
        ------
        RuntimeError
            If there was no ``hello``.
        Unavailable
            If the target lacks a module that the case needs.
        """
        if self.framework is None:
            raise RuntimeError("no framework yet: the first request must be a hello that goes well")
        return TimedCase(fields, self.framework.names(), self.framework.synchronize)


def main(requests: int, answers: int, bench: Bench | None = None) -> None:
    """Answer requests until the pipe is closed or says bye.

    Parameters
    ----------
    requests, answers
        File descriptors of two pipes, which are this process' own from now on.
    bench
        What answers.
    """
    os.environ.update(_QUIET)
    faulthandler.enable()  # a crash in native code says where, in the output that the study shows
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    bench = bench or Bench()
    with open(requests, encoding="utf-8") as lines, open(answers, "w", encoding="utf-8") as replies:
        for line in lines:
            request = json.loads(line)
            try:
                replies.write(json.dumps(bench.answer(request)) + "\n")
                replies.flush()
            except BrokenPipeError:
                break
            if request.get("do") == "bye":
                break
    # No teardown: it takes longer than a batch, and a crash in it would look like one of the target's.
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


def _refusal(kind: str, error: BaseException) -> dict[str, Any]:
    cause = error.__cause__ if isinstance(error, CaseError) and error.__cause__ is not None else error
    lines = traceback.format_exception(type(cause), cause, cause.__traceback__)
    if isinstance(error, (CaseError, Unavailable, RuntimeError, ValueError)):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}"
    return {"ok": False, "kind": kind, "error": " ".join(text.split()), "traceback": "".join(lines)}


# Finding the framework of a target.

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
    """An imported framework with a device.

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
        """Return the function that waits for the device."""
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
    if dryrun:
        _enable_dry_run(dryrun, library)
    name = name or _installed()
    if name not in _PACKAGES:
        raise RuntimeError(f"framework {name!r} is not known; known: {', '.join(_PACKAGES)}")
    cuda = _imported(name)
    if ".simulator" in str(getattr(cuda.jit, "__module__", "")):
        raise RuntimeError(
            "the CUDA simulator is on (NUMBA_ENABLE_CUDASIM, or enable_cudasim in .numba_config.yaml): its launches "
            "say nothing about those of CUDA. Switch it off; to measure the host side without a GPU, use a dry run")
    is_dry_run = _has_null_driver()
    _check_device(cuda)
    # The versions of Python and of what is installed; the framework's own is what its module says.
    module: ModuleType = importlib.import_module(_PACKAGES[name])
    return Framework(name, cuda, os.path.dirname(str(cuda.__file__)),
                     {"python": platform.python_version(), **_versions_of(_MATTER),
                      name: str(getattr(module, "__version__", "unknown"))}, is_dry_run)


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
    """A finder of one package; its modules are found in its folder as usual."""

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


def _check_device(cuda: Any) -> None:
    """Raise if there is no device; make its context otherwise."""
    try:
        cuda.current_context()
    except Exception as error:
        text = " ".join(str(error).split())
        raise RuntimeError(f"no CUDA GPU is available ({type(error).__name__}: {text[:300]}); a dry run "
                           "(dry_run=True, or --dryrun) measures the host side without one") from error


def _has_null_driver() -> bool:
    """Return whether the CUDA driver that this process has loaded is the null driver."""
    try:
        return hasattr(ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW), "kernelscope_dryrun_interface")
    except OSError:
        return False


def _versions_of(packages: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def _said(name: str) -> str:
    return ", ".join(f"{package} {version}" for package, version in _versions_of((name, "numba", "numpy")).items())
