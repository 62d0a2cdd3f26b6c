"""Hooks on numba-cuda's compiles: outcome, passes, link phases, captured values. None is on the launch path."""

from __future__ import annotations

import base64
import importlib
import json
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from types import FrameType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from kernelscope.errors import DisassemblerError, KernelScopeError, message_of
from kernelscope.native.log import ThreadState
from kernelscope.probes.base import Patches, error_text, hook_codes
from kernelscope.probes.functions import Captured, Definition, Implementations, captured, is_library
from kernelscope.probes.numba_cuda import disk
from kernelscope.probes.numba_cuda.disk import loaded_bounds
from kernelscope.probes.numba_cuda.kernels import KernelRows, is_sensitive
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

#: Which function of numba-cuda asked, as the schema's triggers.
_TRIGGERS = {
    "_compile_for_args": "launch",
    "specialize": "specialize",
    "forall": "specialize",
    "recompile": "recompile",
    "_jit": "eager",
    "jit": "eager",
}

#: The wrapper that numba's compiler lock puts around ``compile``.
_LOCKED = "_acquire_compile_lock"

#: So many known signatures, and launch configurations, are noted with a compile: those before are mostly rows anyway.
_MOST_KNOWN = 32

#: CUDACodeLibrary's methods that build something, the cache that grows when they do, and the phase's name.
_BUILDERS = (("get_asm_strs", "_ptx_cache", "nvvm"), ("get_ltoir", "_ltoir_cache", "lto"),
             ("get_cubin", "_cubin_cache", "link"))


class CompileHooks:
    """Records every compile and disk-cache load while installed.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    rows : KernelRows
        Interns dispatchers, specializations and configurations.
    modules : object
        The modules of numba-cuda that are hooked: ``dispatcher``, ``codegen``, ``driver``, ``launchconfig``, ``lock``.
    """

    def __init__(self, sink: Sink, rows: KernelRows, modules: Any) -> None:
        self.sink = sink
        self.rows = rows
        self.modules = modules
        self.enabled = True
        self.hits = Hits(sink, modules)
        self._device_builds = DeviceBuilds(sink, rows, modules)

    def install(self, patches: Patches) -> list[str]:
        """Put the hooks in; return the names of those that this version of numba-cuda does not have."""
        modules = self.modules
        return patches.hook_all((
            (type(modules.lock), "acquire", self._lock),
            (modules.dispatcher.CUDADispatcher, "compile", self._compile),
            (modules.dispatcher, "compile_cuda", self._pipeline),
            *((modules.codegen.CUDACodeLibrary, method,
               lambda original, cache=cache, phase=phase: self._builder(original, cache, phase))
              for method, cache, phase in _BUILDERS),
            (modules.driver.Context, "create_module_image", self._load),
        ))

    def _lock(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """numba's compiler lock, which its wrapper around ``compile`` takes just before: how long that takes."""

        def acquire(lock: Any) -> Any:
            state = self.sink.state()
            asked = self.sink.clock()
            result = original(lock)
            state.lock_asked, state.lock_held = asked, self.sink.clock()
            return result

        return acquire

    def _compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        sink, now = self.sink, self.sink.clock

        def compile(self_: Any, sig: Any) -> Any:
            if not self.enabled:
                return original(self_, sig)
            state = sink.state()
            # numba's wrapper has just taken its lock in this thread.
            asked, held = state.lock_asked, state.lock_held
            if asked == UNKNOWN:
                held = now()
            # The lock is numba's own and reentrant. It is held already where this runs inside numba's own wrapper;
            # where it is not, holding it here makes the counters' difference this compile's alone.
            with self.modules.lock:
                row = self._begin(self_, sig, *_caller(), held, asked)
                outer, state.compilation = state.compilation, row
                try:
                    kernel = original(self_, sig)
                except BaseException as error:
                    self._end(row, self_, None, error)
                    raise
                finally:
                    state.compilation = outer
                self._end(row, self_, kernel, None)
            return kernel

        return compile

    def _begin(self, dispatcher: Any, sig: Any, caller: str, values: tuple[Any, ...], held: int,
               asked: int) -> dict[str, Any]:
        """The part of the row that is known before; ``_`` keys are taken out again by `_end`."""
        row: dict[str, Any] = {"start_ns": held, "outcome": "failed", "thread_id": self.sink.state().thread_id,
                               "_passes": []}
        if asked != UNKNOWN:
            row["start_ns"], row["wait_ns"] = asked, held - asked
        try:
            row["_before"] = (sum(dispatcher._cache_hits.values()), sum(dispatcher._cache_misses.values()))
            row["_sig"] = sig
            row["trigger"] = _TRIGGERS.get(caller, "compile")
            row["signature"] = self.rows.signature_text(sig)
            row["dispatcher_id"] = self.rows.dispatcher(dispatcher)
            known = [*self.rows.known_of_others(row["dispatcher_id"], dispatcher),
                     *self.rows.known_before(dispatcher)]
            attributes: dict[str, Any] = {"known_signatures": known[-_MOST_KNOWN:]} if known else {}
            passed = [array_kind(value) for value in values]
            if any(passed):
                attributes["passed"] = passed
            if row["trigger"] == "specialize":
                attributes |= {"forall": True} if caller == "forall" else {}
            elif self.rows.is_another(row["dispatcher_id"], dispatcher) and not known:
                attributes["another_dispatcher"] = True
            configurations = self.rows.known_configurations(dispatcher, sig)
            if configurations:
                attributes["known_configurations"] = configurations[-_MOST_KNOWN:]
            row["_attributes"] = attributes
            config = self.modules.launchconfig.current_launch_config()
            if config is not None:
                row["configuration_id"] = self.rows.configuration(config)
            row["_disk"] = disk.look(dispatcher, config, self.modules.dispatcher)
        except Exception as problem:
            self.sink.swallow("numba-cuda", problem)
        return row

    def _end(self, row: dict[str, Any], dispatcher: Any, kernel: Any, error: BaseException | None) -> None:
        """Complete the row and keep it, unless nothing was done."""
        row["end_ns"] = self.sink.clock()
        seen = row.pop("_disk", None)
        try:
            hits, misses = row.pop("_before")
            sig, passes, attributes = row.pop("_sig"), row.pop("_passes"), row.pop("_attributes")
            if error is not None:
                row["error"] = error_text(error)
            elif sum(dispatcher._cache_misses.values()) > misses:
                row["outcome"] = "compiled"
            elif sum(dispatcher._cache_hits.values()) > hits:
                row["outcome"] = "disk"
            elif row["trigger"] == "launch":
                row["outcome"] = "wait"
            else:
                return  # it was in memory already: nobody waited for anything
            if kernel is not None:
                row["specialization_id"] = self.rows.specialization(dispatcher, kernel, row["outcome"])
                row["launch_config_sensitive"] = is_sensitive(dispatcher, kernel)
                if isinstance(sig, str):  # given to kernel.compile() as text, which only numba-cuda may evaluate
                    row["signature"] = self.rows.signature_text(kernel.argument_types)
            if seen is not None:
                self._add_cache_columns(row, seen, dispatcher, sig, kernel, error, attributes)
            note_definition(self.rows, row, attributes)
            row["attributes"] = json.dumps(attributes) if attributes else None
            self.sink.add_compile(row, passes)
        except Exception as problem:
            self.sink.swallow("numba-cuda", problem)

    def _add_cache_columns(self, row: dict[str, Any], seen: disk.Look, dispatcher: Any, sig: Any, kernel: Any,
                         error: BaseException | None, attributes: dict[str, Any]) -> None:
        try:
            disk.note(row, attributes, seen, dispatcher, sig, kernel, error, self.modules.dispatcher)
            if row["outcome"] == "disk":
                others = disk.other_options(dispatcher, kernel)
                definition = self.rows.definition(row["dispatcher_id"])
                if others:
                    attributes["unsafe"] = {"options": others}
                    definition.unsafe = True
                self.hits.add(row, dispatcher, kernel, definition)
        except Exception as problem:  # the compile itself is still a row
            self.sink.swallow("numba-cuda", problem)

    def _pipeline(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_cuda(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            try:
                row = self.sink.state().compilation
                if self.enabled and row is not None:
                    row["_passes"].extend(pass_rows(result.metadata["pipeline_times"]))
            except Exception as problem:
                self.sink.swallow("numba-cuda", problem)
            return result

        return compile_cuda

    def _builder(self, original: Callable[..., Any], cache: str, phase: str) -> Callable[..., Any]:
        def build(library: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.enabled:
                return original(library, *args, **kwargs)
            before = len(getattr(library, cache, ()))
            start = self.sink.clock()
            row = self._begin_for_device(library, start) if phase == "link" else None
            try:
                result = original(library, *args, **kwargs)
            except BaseException as error:
                self._end_for_device(row, error)
                raise
            if len(getattr(library, cache, ())) > before:
                self._phase(phase, start)
            self._end_for_device(row, None)
            return result

        return build

    def _begin_for_device(self, library: Any, start: int) -> dict[str, Any] | None:
        try:
            state = self.sink.state()
            row = self._device_builds.begin(library, state, start)
            if row is not None:
                state.compilation = row
            return row
        except Exception as problem:
            self.sink.swallow("numba-cuda", problem)
            return None

    def _end_for_device(self, row: dict[str, Any] | None, error: BaseException | None) -> None:
        if row is None:
            return
        try:
            state = self.sink.state()
            state.compilation = None
            self._device_builds.end(row, state, error)
        except Exception as problem:
            self.sink.swallow("numba-cuda", problem)

    def _load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def create_module_image(context: Any, *args: Any, **kwargs: Any) -> Any:
            start = self.sink.clock()
            result = original(context, *args, **kwargs)
            if self.enabled:
                self._phase("load", start)
            return result

        return create_module_image

    def _phase(self, name: str, start: int) -> None:
        """Keep one link phase, with the compile under way or (a module loaded by a later launch) without."""
        try:
            state = self.sink.state()
            entry = {"kind": "phase", "name": name, "start_ns": start,
                     "duration_ns": self.sink.clock() - start}
            if state.compilation is not None:
                state.compilation["_passes"].append(entry)
            elif name != "load" or not self._device_builds.loaded(entry, state):
                # Outside a launch the thread's kernel is that of its last one, which has nothing to do with this.
                known = UNKNOWN if state.launch_config is None else self.rows.specialization_of(state.kernel)
                self.sink.passes.append({**entry, "specialization_id": None if known == UNKNOWN else known})
        except Exception as problem:
            self.sink.swallow("numba-cuda", problem)


def note_definition(rows: KernelRows, row: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Add to a compile's attributes what its definition has changed, and remember what was compiled."""
    definition = rows.definition(row["dispatcher_id"])
    if row["trigger"] == "recompile":
        if "known_signatures" not in attributes:  # it compiles one signature after the other, and this is the first
            definition.recompile()
        attributes["recompiled"] = definition.recompiled
    elif definition.captured is None or row["outcome"] == "compiled":
        definition.look()
    changes = rows.changes(row["dispatcher_id"])
    if changes is not None:
        attributes["redefined"] = changes
    if row["outcome"] in ("compiled", "disk"):
        definition.compiled(row["signature"])


def array_kind(value: Any) -> Any:
    """Return of which library an argument's array is, for advice that can be followed with it.

    ``host`` is NumPy's, ``device`` numba's own on the device, ``cupy`` and ``torch`` theirs, and ``other`` another
    one's; None is no array. A tuple has a list of its elements'.
    """
    if isinstance(value, tuple):
        kinds = [array_kind(each) for each in value]
        return kinds if any(kinds) else None
    if isinstance(value, np.ndarray):
        return "host"
    root = type(value).__module__.partition(".")[0]
    if root in ("cupy", "torch"):
        return root
    if not hasattr(type(value), "__cuda_array_interface__"):
        return None
    return "device" if root in ("numba", "numba_cuda_mlir") else "other"


def _caller() -> tuple[str, tuple[Any, ...]]:
    """Name of the function of numba-cuda that called ``compile``, and the values that it was called for."""
    frame = sys._getframe(2)
    while (frame.f_code in hook_codes or frame.f_code.co_name == _LOCKED
           or not str(frame.f_globals.get("__name__")).startswith("numba.cuda.")):
        if frame.f_back is None:
            return "", ()  # user code, whatever its functions are called
        frame = frame.f_back
    name = frame.f_code.co_name
    values = frame.f_locals.get("args") if name in ("_compile_for_args", "specialize") else ()
    if name == "specialize" and _is_forall(frame.f_back):
        name = "forall"
    return name, values if isinstance(values, tuple) else ()


def _is_forall(frame: FrameType | None) -> bool:
    """Whether the frame is that of numba-cuda's ``ForAll.__call__``."""
    made = None if frame is None else frame.f_globals.get("ForAll")
    return frame is not None and made is not None and made.__call__.__code__ is frame.f_code


def pass_rows(pipelines: dict[str, Any]) -> list[dict[str, Any]]:
    """Return rows for numba's ``pipeline_times``: {pipeline: {"0_pass": (init, run, finalize) in seconds}}."""
    return [
        {"kind": "pass", "name": name.split("_", 1)[1], "duration_ns": round(sum(times) * 1e9)}
        for timings in pipelines.values() for name, times in timings.items()
    ]


# Whether code from the disk cache was made with the values that its kernel captures now.
#
# The cache's key has the function's bytecode and closure, but neither the globals that it reads, by name or as
# attributes of modules and classes, nor what it calls: device functions, implementations of overloads, intrinsics.
# So a kernel that has any of these is lowered once more by numba's front end, without NVVM, and its LLVM
# compared with what was loaded; where it differs, NVVM makes PTX of it, and that is compared too. It happens
# after recording, changes nothing of the user's (what a device function compiles meanwhile is taken out of it
# again), and what cannot be compared counts as not checked: a false alarm would be worse than a change that is
# missed.

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
        self.waiting: list[tuple[dict[str, Any], Any, Any, Definition]] = []

    def add(self, row: dict[str, Any], dispatcher: Any, kernel: Any, definition: Definition) -> None:
        """Keep a disk hit for `check`, which tells the definition what it finds."""
        self.waiting.append((row, dispatcher, kernel, definition))

    def check(self) -> None:
        """Add to each hit's attributes what was found: ``unsafe.captured``, or ``not_checked`` with the reason."""
        begun = self._sink.clock()
        waiting, self.waiting = self.waiting, []
        implementations: Implementations | None = None
        for row, dispatcher, kernel, definition in waiting:
            try:
                implementations = implementations or user_implementations()
                found = not_in_key(dispatcher.py_func, implementations)
            except Exception as problem:
                self._sink.swallow("numba-cuda", problem)
                self._note(row, [], error_text(problem))
                continue
            if found:
                late = self._sink.clock() - begun > BUDGET_NS
                verdict = "there was no time for it" if late else self._verdict(dispatcher, kernel)
                self._note(row, found, verdict)
                definition.unsafe |= verdict is False

    def _verdict(self, dispatcher: Any, kernel: Any) -> bool | str:
        if getattr(kernel, "launch_config_sensitive", False):
            return "it depends on the launch configuration, without which it cannot be compiled again"
        try:
            loaded = {name: importlib.import_module(path) for name, path in _MODULES.items()}
            return compare(kernel, dispatcher, SimpleNamespace(**vars(self._modules), **loaded))
        except Exception as problem:
            return f"{type(problem).__name__}: {str(problem).strip().split(chr(10), 1)[0][:200]}"

    @staticmethod
    def _note(row: dict[str, Any], found: list[Captured], verdict: bool | str) -> None:
        attributes = json.loads(row.get("attributes") or "{}")
        names = {"captured": [each.text for each in found if not each.is_function],
                 "functions": [each.text for each in found if each.is_function]}
        names = {kind: list(dict.fromkeys(listed))[:_MOST_NAMES] for kind, listed in names.items() if listed}
        attributes["captures"] = [*names.get("captured", ()), *names.get("functions", ())]
        if isinstance(verdict, str):
            attributes["captures_not_checked"] = verdict
        elif not verdict:
            attributes["unsafe"] = {**attributes.get("unsafe", {}), **names}
        row["attributes"] = json.dumps(attributes)


def not_in_key(function: Any, implementations: Implementations | None = None) -> list[Captured]:
    """Return what a kernel's code depends on that the disk cache's key does not have.

    Parameters
    ----------
    function : function
        The kernel's. What its own closure holds is in the key, except for functions and modules, of which it has
        the name.
    implementations : callable, optional
        See `user_implementations`.
    """
    return [each for each in captured(function, implementations)
            if each.owners or each.is_function or not each.is_in_closure
            or isinstance(each.value, FunctionType | ModuleType)]


def user_implementations() -> Implementations:
    """Return what finds the user's Python functions behind overloads and intrinsics.

    It takes the function that is called, or the name of a method or attribute.
    """
    by_function: dict[int, list[Any]] = {}
    by_name: dict[str, list[Any]] = {}
    for path in ("numba.cuda.typing.templates", "numba.core.typing.templates"):
        registry = getattr(sys.modules.get(path), "builtin_registry", None)
        for template in (*getattr(registry, "functions", ()), *getattr(registry, "attributes", ())):
            function = getattr(template, "_overload_func", None) or getattr(template, "_definition_func", None)
            if not isinstance(function, FunctionType) or is_library(function):
                continue
            key, name = getattr(template, "key", None), getattr(template, "_attr", None)
            if callable(key) and name is None:
                by_function.setdefault(id(key), []).append(function)
                name = getattr(key, "__name__", None)
            if isinstance(name, str):  # of a library's function, which is reached through its module
                by_name.setdefault(name, []).append(function)

    def implementations(value: Any) -> Sequence[Any]:
        if isinstance(value, str):
            return by_name.get(value, ())
        definition = getattr(value, "_defn", None)
        return [definition] if isinstance(definition, FunctionType) else by_function.get(id(value), ())

    return implementations


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
    from kernelscope.probes.numba_cuda.same_code import same_llvm, same_ptx

    _refuse_witnesses(modules)
    library = kernel._codelibrary
    capability = next(iter(library._cubin_cache))
    with ExitStack() as stack:
        for lock in _locks(modules.lock):
            # Whoever compiles in another thread may take minutes; stopping does not wait for that.
            if not lock.acquire(timeout=_PATIENCE):
                raise TimeoutError("another thread is compiling")
            stack.callback(lock.release)
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(_Undo(modules))
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


# Code that a launch makes for a device of another compute capability than the specialization was compiled for.
#
# numba-cuda compiles for the device that is current. A launch on another one takes the same specialization, and
# links it (and runs NVVM) once more while it prepares the launch, outside every compile: such a build is a
# compile of its own.

class DeviceBuilds:
    """Makes a row of ``compilations`` of each such build.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    rows : KernelRows
        Interns what the row refers to.
    modules : object
        numba-cuda's modules: ``devices``, ``dispatcher``.
    """

    def __init__(self, sink: Sink, rows: KernelRows, modules: Any) -> None:
        self._sink = sink
        self._rows = rows
        self._modules = modules
        # Rows whose module is still to be loaded, by thread.
        self._linked: dict[int, tuple[int, dict[str, Any], Any]] = {}

    def begin(self, library: Any, state: ThreadState, start: int) -> dict[str, Any] | None:
        """Return the row of a link that a launch has just begun, or None where it is another thing."""
        kernel, config = state.kernel, state.launch_config
        if config is None or state.compilation is not None or not library._cubin_cache:
            return None
        if not isinstance(kernel, self._modules.dispatcher._Kernel) or kernel._codelibrary is not library:
            return None
        device = self._modules.devices.get_context().device
        built = [".".join(str(part) for part in capability[:2]) for capability in library._cubin_cache]
        wanted = ".".join(str(part) for part in device.compute_capability[:2])
        if wanted in built:
            return None  # it is there already
        dispatcher = config.dispatcher
        row: dict[str, Any] = {
            "start_ns": start, "outcome": "failed", "thread_id": state.thread_id, "trigger": "device",
            "signature": self._rows.signature_text(kernel.argument_types),
            "dispatcher_id": self._rows.dispatcher(dispatcher),
            "specialization_id": self._rows.specialization(dispatcher, kernel),
            "configuration_id": self._rows.configuration(config),
            "launch_config_sensitive": is_sensitive(dispatcher, kernel),
            "attributes": json.dumps({"device": {"ordinal": device.id, "compute_capability": wanted,
                                                 "compiled_for": built}}),
            "_passes": [],
        }
        return row

    def end(self, row: dict[str, Any], state: ThreadState, error: BaseException | None) -> None:
        """Keep the row: it is linked, and the module load that follows will be added to it."""
        row["end_ns"] = self._sink.clock()
        passes = row.pop("_passes")
        if error is None:
            row["outcome"] = "compiled"
        else:
            row["error"] = error_text(error)
        number = self._sink.add_compile(row, passes)
        if error is None:
            self._linked[state.thread_id] = number, row, state.launch_config

    def loaded(self, entry: dict[str, Any], state: ThreadState) -> bool:
        """Add a module load to the build that this thread's launch has just made; return whether there is one."""
        number, row, config = self._linked.pop(state.thread_id, (0, None, None))
        if row is None or config is not state.launch_config:
            return False
        row["end_ns"] = entry["start_ns"] + entry["duration_ns"]
        self._sink.passes.append({**entry, "compilation_id": number, "specialization_id": row["specialization_id"]})
        return True


# A copy of a compiled kernel, compiled once more with line information; the kernel itself is not touched.

def compile_copy(modules: Any, dispatcher: Any, kernel: Any, bound: tuple[Any, ...] | None,
                 sink: Sink | None) -> dict[str, str]:
    """Return the code of a copy: ``ptx``, ``cubin`` (base64), and ``sass`` where nvdisasm can be had.

    The copy is neither loaded nor launched, and in no cache.

    Parameters
    ----------
    modules : object
        numba-cuda's modules: see `kernelscope.probes.numba_cuda.load_modules`.
    dispatcher, kernel : object
        A ``CUDADispatcher`` and one of its compiled ``_Kernel`` objects.
    bound : tuple or None
        The launch configuration that the kernel is bound to (LC-S): grid, block, shared memory. The copy is compiled
        inside an equal one.
    sink : Sink or None
        Of the recording under way, which the copy leaves no trace in.

    Raises
    ------
    KernelScopeError
        numba-cuda cannot compile it; the message says why.
    """
    options = dict(dispatcher.targetoptions, lineinfo=not dispatcher.targetoptions.get("debug"))
    options["link"] = list(options.get("link") or ())  # a compile appends to it
    capability = next(reversed(kernel._codelibrary._cubin_cache), None)

    def build() -> Any:
        copy = modules.dispatcher._Kernel(dispatcher.py_func, kernel.argument_types, **options)
        copy._codelibrary.get_cubin(cc=capability)
        return copy

    name = dispatcher.py_func.__name__
    with _Unrecorded(sink), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the user has seen what numba warns of
        try:
            copy = build() if bound is None else _inside(modules, dispatcher, options, bound, build)
        except Exception as error:
            said = " ".join(message_of(error).split())[:500]
            raise KernelScopeError(f"a copy of {name!r} with line information cannot be compiled: "
                                   f"{type(error).__name__}: {said}") from error
    library = copy._codelibrary
    made = library._cubin_cache[capability] if capability is not None else next(iter(library._cubin_cache.values()))
    code = bytes(getattr(made, "code", made))
    ptx = library._ptx_cache.get(capability) or next(reversed(library._ptx_cache.values()))
    result = {"ptx": "\n\n".join(ptx), "cubin": base64.b64encode(code).decode("ascii")}
    # Whoever shows it finds out from the machine code why there is none.
    with suppress(DisassemblerError):
        from kernelscope import cubin

        result["sass"] = cubin.disassemble(code)
    return result


def _inside(modules: Any, dispatcher: Any, options: dict[str, Any], bound: tuple[Any, ...], build: Any) -> Any:
    """Run `build` as a launch with that configuration would: numba-cuda sets the current one inside a call only."""
    grid, block, sharedmem = bound
    stand_in = modules.dispatcher.CUDADispatcher(dispatcher.py_func, options)
    config = modules.dispatcher._LaunchConfiguration(stand_in, tuple(grid), tuple(block), 0, sharedmem)
    built: list[Any] = []

    def compile_for_args(*_: Any, **__: Any) -> Any:
        built.append(build())
        return built[0]

    stand_in._compile_for_args = compile_for_args
    base = modules.dispatcher._dispatcher.Dispatcher
    # It has no overload that could match the arguments, whatever they are.
    arguments = (0,) * dispatcher.py_func.__code__.co_argcount
    base._cuda_call(stand_in, *arguments, **{modules.dispatcher._LAUNCH_CONFIG_KW: config})
    return built[0]


class _Unrecorded:
    """While it is entered, passes and phases of this thread's compiles go nowhere."""

    def __init__(self, sink: Sink | None) -> None:
        self._state = None if sink is None else sink.state()
        self._outer: Any = None

    def __enter__(self) -> None:
        if self._state is not None:
            self._outer, self._state.compilation = self._state.compilation, {"_passes": []}

    def __exit__(self, *_: object) -> None:
        if self._state is not None:
            self._state.compilation = self._outer
