"""Whether code from the disk cache was made with the values that its kernel captures now.

The cache's key has the function's bytecode and closure, but neither the globals that it reads nor the device functions
that it calls. So the kernel is lowered once more by numba's front end, without NVVM, and its LLVM compared with what
was loaded; where it differs, NVVM makes PTX of it, and that is compared too. It happens after recording, changes
nothing of the user's (what a device function compiles meanwhile is taken out of it again), and what cannot be compared
counts as not checked: a false alarm would be worse than a change that is missed.
"""

from __future__ import annotations

import importlib
import json
import warnings
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

from kernelscope.probes.base import Patches
from kernelscope.probes.functions import Definition, captured, is_device_function, is_value
from kernelscope.probes.numba_cuda.disk import loaded_bounds
from kernelscope.probes.numba_cuda.llvm_text import same_llvm, same_ptx
from kernelscope.probes.sink import Sink

#: How long all checks of one stop may take; one that has begun is finished.
BUDGET_NS = 1_000_000_000
#: How long a check waits for numba's compiler lock, in seconds.
_PATIENCE = 0.2
#: How many names are noted.
_MOST_NAMES = 12
#: What the comparison needs of numba-cuda beside what the probe has.
_MODULES = {"nvvm": "numba.cuda.cudadrv.nvvm", "nvrtc": "numba.cuda.cudadrv.nvrtc",
            "event": "numba.cuda.core.event", "config": "numba.cuda.core.config"}


class Hits:
    """Disk hits whose captured values are to be looked at when recording ends.

    Parameters
    ----------
    sink : Sink
        Where their rows of ``compilations`` are.
    modules : object
        The modules of numba-cuda that the probe has: ``devices``, ``dispatcher``, ``driver``, ``lock``.
    """

    def __init__(self, sink: Sink, modules: Any) -> None:
        self._sink = sink
        self._modules = modules
        self._waiting: list[tuple[dict[str, Any], Any, Any, Definition]] = []

    def add(self, row: dict[str, Any], dispatcher: Any, kernel: Any, definition: Definition) -> None:
        """Keep a disk hit for `check`, which tells the definition what it finds."""
        self._waiting.append((row, dispatcher, kernel, definition))

    def check(self) -> None:
        """Add to each hit's attributes what was found: ``unsafe.captured``, or ``not_checked`` with the reason."""
        begun = self._sink.clock()
        waiting, self._waiting = self._waiting, []
        for row, dispatcher, kernel, definition in waiting:
            try:
                names = captured_names(dispatcher.py_func)
                if names:
                    late = self._sink.clock() - begun > BUDGET_NS
                    verdict = "there was no time for it" if late else self._verdict(dispatcher, kernel)
                    self._note(row, names, verdict)
                    definition.unsafe |= verdict is False
            except Exception as problem:
                self._sink.swallow("numba-cuda", problem)

    def _verdict(self, dispatcher: Any, kernel: Any) -> bool | str:
        if getattr(kernel, "launch_config_sensitive", False):
            return "it depends on the launch configuration, without which it cannot be compiled again"
        try:
            loaded = {name: importlib.import_module(path) for name, path in _MODULES.items()}
            return compare(kernel, dispatcher, SimpleNamespace(**vars(self._modules), **loaded))
        except Exception as problem:
            return f"{type(problem).__name__}: {str(problem).strip().split(chr(10), 1)[0][:200]}"

    @staticmethod
    def _note(row: dict[str, Any], names: list[str], verdict: bool | str) -> None:
        attributes = json.loads(row.get("attributes") or "{}")
        attributes["captures"] = names
        if isinstance(verdict, str):
            attributes["captures_not_checked"] = verdict
        elif not verdict:
            attributes.setdefault("unsafe", {})["captured"] = names
        row["attributes"] = json.dumps(attributes)


def captured_names(function: Any) -> list[str]:
    """Return the names of the global values and device functions that a kernel's code depends on, and theirs.

    Names in a device function stand behind its own: ``scale.FACTOR``. What a closure holds is in the cache's key, but
    not what a device function in it captures.
    """
    own = set(function.__code__.co_freevars)
    names = [name for name, value in captured(function).items()
             if is_device_function(value) or (name not in own and is_value(value))]
    return names[:_MOST_NAMES]


def compare(kernel: Any, dispatcher: Any, modules: Any) -> bool:
    """Return whether the loaded code is what would be compiled now.

    Parameters
    ----------
    kernel : _Kernel
        A kernel from the disk cache.
    dispatcher : CUDADispatcher
        Its dispatcher.
    modules : object
        numba-cuda's modules: ``config``, ``devices``, ``dispatcher``, ``driver``, ``event``, ``nvvm``, ``nvrtc``, and
        its compiler lock as ``lock``.

    Raises
    ------
    Exception
        It cannot be told: the front end raised, or something else would notice that it ran.
    """
    _refuse_witnesses(modules)
    library = kernel._codelibrary
    capability = next(iter(library._cubin_cache))
    with ExitStack() as held:
        for lock in _locks(modules.lock):
            # Whoever compiles in another thread may take minutes; stopping does not wait for that.
            if not lock.acquire(timeout=_PATIENCE):
                raise TimeoutError("another thread is compiling")
            held.callback(lock.release)
        held.enter_context(warnings.catch_warnings())
        held.enter_context(_Undo(modules))
        warnings.simplefilter("ignore")
        fresh = _lower(kernel, dispatcher, capability[:2], modules)
        if same_llvm(library.llvm_strs, fresh):
            return True
        options = {**library._nvvm_options, "arch": modules.nvrtc.get_arch_option(*capability)}
        # In debug mode NVVM is given one module at a time.
        groups = [[text] for text in fresh] if "g" in options else [fresh]
        made = [modules.nvvm.compile_ir(group, **options).decode().strip("\x00").strip() for group in groups]
        return same_ptx(library._ptx_cache[capability], made)


def _lower(kernel: Any, dispatcher: Any, capability: tuple[int, ...], modules: Any) -> list[str]:
    """LLVM of the kernel as ``_Kernel.__init__`` makes it, with the options that the loaded one was made with."""
    library = kernel._codelibrary
    # `compile_cuda` itself, which our own hook may stand around: it records only within a compile of the user's.
    result = modules.dispatcher.compile_cuda(
        dispatcher.py_func, modules.dispatcher.types.void, tuple(kernel.signature.args), debug=kernel.debug,
        lineinfo=kernel.lineinfo, forceinline=dispatcher.targetoptions.get("forceinline", False),
        fastmath=library._nvvm_options.get("fastmath", False), nvvm_options=dict(library._nvvm_options),
        cc=capability, max_registers=library._max_registers, lto=library._lto)
    entry = result.library.get_function(result.fndesc.llvm_func_name)
    modules.dispatcher.kernel_fixup(entry, kernel.debug)
    modules.nvvm.set_launch_bounds(entry, loaded_bounds(library))
    return [str(module) for module in result.library.modules]


def _locks(lock: Any) -> list[Any]:
    """The locks that numba-cuda's compiler lock consists of: numba's own, where it is there, and numba-cuda's."""
    inner = getattr(lock, "_lock", None)
    return [inner] if inner is not None else [*_locks(lock._numba_lock), *_locks(lock._cuda_lock)]


def _refuse_witnesses(modules: Any) -> None:
    """Do nothing where the user would see it: listeners for compiles, dumps of what is compiled, a closed device."""
    if any(modules.event._registered.values()):
        raise RuntimeError("numba's compile events have listeners")
    shown = [name for name in vars(modules.config) if name.startswith("DUMP_") and getattr(modules.config, name)]
    if shown:
        raise RuntimeError(f"{shown[0]} prints what is compiled")
    driver = modules.driver.driver
    if not driver.is_initialized or driver.initialization_error is not None:
        raise RuntimeError("CUDA is not initialized")
    current = modules.devices.gpus.current
    if current is None or current.primary_context is None:
        raise RuntimeError("no device is active")


class _Undo:
    """Takes out of device functions what they compile meanwhile.

    Otherwise a launch of the user's would later find code there that has today's values of globals.
    """

    def __init__(self, modules: Any) -> None:
        self._modules = modules
        self._patches = Patches()
        self._added: list[tuple[Any, Any]] = []

    def __enter__(self) -> None:
        def watched(original: Any) -> Any:
            def compile_device(dispatcher: Any, args: Any, return_type: Any = None) -> Any:
                if args not in dispatcher.overloads:
                    self._added.append((dispatcher, args))
                return original(dispatcher, args, return_type)

            return compile_device

        self._patches.hook(self._modules.dispatcher.CUDADispatcher, "compile_device", watched)

    def __exit__(self, *_: object) -> None:
        self._patches.undo()
        for dispatcher, args in self._added:
            dispatcher.overloads.pop(args, None)
