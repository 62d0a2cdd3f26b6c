"""The probe of cuTile (``cuda.tile``): launches, and compiles with what their causes are told from."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import importlib
import inspect
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from kernelscope.errors import ProbeUnavailableError
from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import (
    Bindings,
    Patches,
    Probe,
    error_text,
    hide_frame,
    hook_codes,
    numbers_of,
    without_hook,
)
from kernelscope.probes.cost import Trial, other_work
from kernelscope.probes.driver import device
from kernelscope.probes.functions import function_facts, written
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

FRAMEWORK = "cutile"
#: The versions, by their first two numbers, that the hooks were tried with.
KNOWN_VERSIONS = ("1.7",)
_COMPILE = ["self", "signature", "context", "compute_capability"]
#: So many launches of equal kernel, grid and stream are known at most; they keep kernels and streams alive.
_MOST = 4096

# ``ct.launch`` is a compiled function, replaced wherever a name is bound to it, as ``cuda.core.launch`` is. It finds
# compiled kernels in a memory of its own, and calls ``kernel._compile`` for what is not there; that one asks the disk
# cache, and then starts the assembler.


class CutileProbe(Probe):
    """Hooks cuTile where it is imported, or as soon as it is."""

    name = FRAMEWORK
    module = "cuda.tile"
    fix = "pip install 'cuda-tile>=1.7,<1.8'"

    def __init__(self) -> None:
        super().__init__()
        self._hooks: Hooks | None = None
        self._bindings: Bindings | None = None

    @property
    def is_hooked(self) -> bool:
        """Whether anything was launched. See `Probe.is_hooked`."""
        return self._hooks is not None and self._hooks.has_launched

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook launches and compiles. See `Probe.hook`."""
        version = str(getattr(module, "__version__", ""))
        problems = self_check(module)
        if numbers_of(version)[:2] not in map(numbers_of, KNOWN_VERSIONS) or problems:
            what = ": ".join(filter(None, (f"cuda.tile {version or 'of an unknown version'} is not known",
                                           "; ".join(problems))))
            raise ProbeUnavailableError(f"{what}; {', '.join(KNOWN_VERSIONS)} is recorded")
        self._hooks = hooks = Hooks(sink, self.patches)
        self.patches.hook(module.kernel, "_compile", hooks.make_compile)
        module.launch = without_hook(module.launch)  # somebody may have put back an earlier recording's
        self._bindings = Bindings(vars(module), "launch", hooks.make_launch)
        self._bindings.put()

    def unhook(self) -> None:
        """Undo every hook. See `Probe.unhook`."""
        if self._hooks is not None:
            self._hooks.enabled = False
            self._hooks.known.clear()
        if self._bindings is not None:
            self._bindings.take_back()
            self._bindings = None
        super().unhook()

    def trial(self, sink: Sink, patches: Patches) -> Trial:
        """Return two launches. See `Probe.trial`."""
        def launch(*args: Any, **kwargs: Any) -> None:
            other_work()

        hooks = Hooks(sink, patches)
        hooks.known[launch, (4,), 0] = 0, 0
        hooked = hooks.make_launch(launch)
        return (lambda: launch(0, (4,), launch, ())), (lambda: hooked(0, (4,), launch, ()))

    def synchronize(self) -> str | None:
        """Wait for the current device, if anything was launched. See `ProbeProtocol.synchronize`."""
        if self.sink is None or not self.is_hooked:
            return None
        if self.sink.is_capturing():
            return "a stream is capturing a graph: synchronizing would break the capture"
        driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        if driver.cuCtxGetCurrent(ctypes.byref(context)) or not context:
            return None  # this thread has no context, and is given none for it
        error = driver.cuCtxSynchronize()
        return f"the driver reports error {error}" if error else None


def self_check(module: Any) -> list[str]:
    """Return how what the hooks rely on differs from what it should be."""
    compile_ = vars(getattr(module, "kernel", object)).get("_compile")
    if not inspect.isfunction(compile_):
        return ["there is no function kernel._compile"]
    problems = [] if callable(getattr(module, "launch", None)) else ["there is no function launch"]
    if [*inspect.signature(inspect.unwrap(compile_)).parameters] != _COMPILE:
        problems.append(f"kernel._compile does not take ({', '.join(_COMPILE)})")
    return problems


class Hooks:
    """Records every launch and every compile while enabled.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    patches : Patches
        What the functions behind a compile are hooked with, as soon as cuTile has imported them.

    Attributes
    ----------
    known : dict
        The ids of target and launch configuration of kernel, grid and stream that were launched.
    """

    def __init__(self, sink: Sink, patches: Patches) -> None:
        self.enabled = True
        self.has_launched = False
        self.known: dict[Any, tuple[int, int]] = {}
        self._sink = sink
        self._patches = patches
        self._lock = threading.Lock()
        self._compiler: Any = None
        self._local = threading.local()
        #: By kernel, the one specialization that its launches are of; `UNKNOWN` where there may be another one.
        self._only: dict[int, int] = {}

    # Launches.

    def make_launch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of ``ct.launch``."""
        sink, local, known, now = self._sink, self._local, self.known, self._sink.seconds

        def launch(*args: Any, **kwargs: Any) -> Any:
            if not self.enabled or len(args) != 4:
                try:
                    return original(*args, **kwargs)
                except BaseException as error:
                    hide_frame(error)
                    raise
            state = sink.state()
            outer = getattr(local, "arguments", None), getattr(local, "compiled", None)
            local.arguments, local.compiled = args[3], None
            start = now()
            try:
                result = original(*args, **kwargs)
            except BaseException as error:
                self._launched(state, start, args, error, local.compiled)
                local.arguments, local.compiled = outer
                hide_frame(error)
                raise
            end = now()
            compiled = local.compiled
            local.arguments, local.compiled = outer
            ids = None
            if compiled is None:
                try:
                    ids = known.get((args[2], args[1], args[0]))
                except Exception as problem:  # a grid as a list; what has no hash is looked up each time
                    if from_signal_handler(problem):
                        raise
            if ids is None:
                self._launched(state, start, args, None, compiled, end)
            else:
                state.write(start, -1.0, -1.0, -1.0, end, *ids)
            return result

        hook_codes.add(launch.__code__)
        return functools.update_wrapper(launch, original)

    def _launched(self, state: Any, start: float, args: tuple[Any, ...], error: BaseException | None,
                  compiled: int | None, end: float | None = None) -> None:
        """Write a launch that is new, that compiled or that failed."""
        end = self._sink.seconds() if end is None else end
        try:
            stream, grid, kernel, _ = args
            dispatcher = self._dispatcher(kernel)
            specialization = self._only.get(id(kernel), UNKNOWN) if compiled is None else compiled
            gpu = device(self._sink, _ordinal())
            failure = None if error is None else type(error).__name__
            target = self._sink.target(dispatcher, specialization, gpu, failure)
            shape = (int(grid),) if isinstance(grid, int) else tuple(map(int, grid))
            configuration = self._sink.configuration(shape, None, None, self._stream(stream))
            self.has_launched = True
            if error is None and isinstance(grid, tuple):
                if len(self.known) >= _MOST:
                    self.known.clear()
                self.known[kernel, grid, stream] = self._sink.target(
                    dispatcher, self._only.get(id(kernel), UNKNOWN), gpu), configuration
            state.write(start, -1.0, -1.0, -1.0, end, target, configuration)
        except Exception as problem:
            self._guard(problem)
            self._sink.dropped[FRAMEWORK] += 1

    def _stream(self, stream: Any) -> int:
        """The handle of a stream of any library that cuTile takes."""
        if isinstance(stream, int):
            return stream
        for name in ("cuda_stream", "handle", "ptr"):
            handle = getattr(stream, name, None)
            if handle is not None:
                return self._sink.stream_seen(int(handle), stream)
        return int(stream.__cuda_stream__()[1])

    def _dispatcher(self, kernel: Any) -> int:
        return self._sink.dispatchers.intern((FRAMEWORK, id(kernel)), lambda: _dispatcher_row(kernel), live=kernel)

    # Compiles.

    def make_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return what is called in the place of ``kernel._compile``."""
        def _compile(kernel: Any, signature: Any, context: Any, compute_capability: Any = None) -> Any:
            if not self.enabled:
                return original(kernel, signature, context, compute_capability)
            self._hook_compiler()
            local, start = self._local, self._sink.clock()
            local.asked = seen = {}
            failure: BaseException | None = None
            result = None
            try:
                result = original(kernel, signature, context, compute_capability)
            except BaseException as error:
                failure = error
                raise
            finally:
                end = self._sink.clock()
                local.asked = None
                self._write(kernel, signature, compute_capability, result, failure, start, end, seen)
            return result

        return _compile

    def _hook_compiler(self) -> None:
        """Hook the disk cache and the assembler, which cuTile imports at its first compile, and so right now."""
        try:
            with self._lock:
                if self._compiler is None:
                    self._compiler = importlib.import_module("cuda.tile._compile")
                    self._patches.hook_all((
                        (self._compiler, "cache_lookup", self._make_lookup),
                        (self._compiler, "compile_cubin", self._make_assemble)))
        except Exception as problem:
            self._guard(problem)

    def _make_lookup(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def cache_lookup(cache_dir: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
            found = original(cache_dir, key, *args, **kwargs)
            seen = getattr(self._local, "asked", None)
            if seen is not None:
                seen["key"], seen["hit"] = key, found is not None
            return found

        return cache_lookup

    def _make_assemble(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def compile_cubin(*args: Any, **kwargs: Any) -> Any:
            start = self._sink.clock()
            try:
                return original(*args, **kwargs)
            finally:
                seen = getattr(self._local, "asked", None)
                if seen is not None:
                    seen["assembled"] = start, self._sink.clock()

        return compile_cubin

    def _write(self, kernel: Any, signature: Any, capability: Any, result: Any, error: BaseException | None,
               start: int, end: int, seen: dict[str, Any]) -> None:
        """Write the compile that has ended."""
        try:
            dispatcher = self._dispatcher(kernel)
            target = "sm_" + "".join(map(str, capability)) if capability else None
            held = facts(kernel, signature, target)
            outcome = "failed" if error is not None else "disk" if seen.get("hit") else "compiled"
            arguments = getattr(self._local, "arguments", None)
            row: dict[str, Any] = {
                "dispatcher_id": dispatcher, "thread_id": self._sink.state().thread_id,
                "trigger": "compile" if arguments is None else "launch", "signature": signature_text(held),
                "start_ns": start, "end_ns": end, "outcome": outcome,
                "cache_key": str(seen["key"]) if "key" in seen else None,
                "error": None if error is None else error_text(error)}
            attributes = {"shapes": _shapes(kernel, arguments)}
            if error is None:
                row["specialization_id"] = self._specialization(kernel, dispatcher, held, result, capability, outcome)
            else:
                attributes["requested"] = held
            row["attributes"] = json.dumps(attributes)
            assembled = seen.get("assembled")
            begun = start if assembled is None else assembled[0]
            self._sink.add_compile(row, [] if assembled is None else [
                {"kind": "phase", "name": "front end", "start_ns": start, "duration_ns": begun - start},
                {"kind": "phase", "name": "tileiras", "start_ns": begun, "duration_ns": assembled[1] - begun}])
        except Exception as problem:
            self._guard(problem)

    def _specialization(self, kernel: Any, dispatcher: int, held: dict[str, Any], result: Any, capability: Any,
                        outcome: str) -> int:
        cubin, entry = result[:2]
        number = self._sink.specializations.intern((FRAMEWORK, dispatcher, entry, held["target"]), lambda: {
            "dispatcher_id": dispatcher, "signature": signature_text(held), "origin": outcome, "entry_name": entry,
            "compute_capability": None if not capability else ".".join(map(str, capability)),
            "cubin_bytes": len(cubin), "attributes": json.dumps(held)})
        # A kernel that was launched before its first compile here has other specializations.
        was_launched = any(key[0] is kernel for key in list(self.known))
        self._only[id(kernel)] = number if id(kernel) not in self._only and not was_launched else (
            number if self._only.get(id(kernel)) == number else UNKNOWN)
        for key in [key for key in list(self.known) if key[0] is kernel]:
            del self.known[key]
        if isinstance(getattr(self._local, "compiled", self), int | None):
            self._local.compiled = number
        return number

    def _guard(self, problem: Exception) -> None:
        """Swallow what is our own; raise what the user's signal handler raised."""
        if from_signal_handler(problem):
            raise problem
        self._sink.swallow(FRAMEWORK, problem)


# What a specialization is told from others by.

def facts(kernel: Any, signature: Any, target: str | None) -> dict[str, Any]:
    """Return what a specialization is for: ``arguments`` and ``constants`` by name, ``options``, ``target``, ``code``.

    An argument has its ``type``; an array also ``ndim``, ``layout``, and by which powers of two its ``address``,
    ``lengths`` and ``strides`` are divisible. Plain JSON values.
    """
    held: dict[str, Any] = {"arguments": {}, "constants": {}, "options": _options(kernel), "target": target,
                            "code": function_facts(kernel._pyfunc.__code__)["code_sha256"]}
    names = _names(kernel)
    for at, each in enumerate(signature.parameters):
        for name, leaf in _leaves(names[at] if at < len(names) else str(at), each):
            if hasattr(leaf, "value"):
                held["constants"][name] = repr(leaf.value)[:60]
            else:
                held["arguments"][name] = _argument(leaf)
    return held


def _leaves(name: str, constraint: Any) -> Iterator[tuple[str, Any]]:
    items = getattr(constraint, "items", None)
    if items is None:
        yield name, constraint
        return
    for at, each in enumerate(items):
        yield from _leaves(f"{name}[{at}]", each)


def _argument(constraint: Any) -> dict[str, Any]:
    element = getattr(constraint, "element", constraint)
    dtype = getattr(element, "dtype", None)
    kind = type(constraint).__name__.removesuffix("Constraint").lower() if dtype is None else dtype.name
    if not hasattr(element, "ndim"):
        return {"type": kind}
    fixed = ", ".join("any" if each is None else str(each) for each in element.stride_constant)
    return {"type": kind if element is constraint else f"list of {kind}", "ndim": element.ndim,
            "index": element.index_dtype.name, "layout": f"of strides ({fixed})",
            "address": element.base_addr_divisible_by, "lengths": list(element.shape_divisible_by),
            "strides": list(element.stride_divisible_by)}


def signature_text(held: dict[str, Any]) -> str:
    """Return a specialization's arguments: ``float32[1d] address:16 lengths:16, float32, N=16``."""
    parts: list[str] = []
    for each in held["arguments"].values():
        text = each["type"]
        if "ndim" in each:
            text += f"[{each['ndim']}d]"
            if each["address"] > 1:
                text += f" address:{each['address']}"
            for name in ("lengths", "strides"):
                if any(number > 1 for number in each[name]):
                    text += f" {name}:{'x'.join(map(str, each[name]))}"
        parts.append(text)
    return ", ".join([*parts, *(f"{name}={value}" for name, value in held["constants"].items())])


def _shapes(kernel: Any, arguments: Any) -> dict[str, list[int]]:
    """The shapes of a launch's arrays by name; nothing else of its arguments is read."""
    found: dict[str, list[int]] = {}
    for name, each in zip(_names(kernel), arguments or (), strict=False):
        shape = getattr(each, "shape", None)
        if isinstance(shape, tuple):
            found[name] = [int(length) for length in shape]
    return found


def _names(kernel: Any) -> list[str]:
    return [*inspect.signature(kernel._pyfunc).parameters]


def _options(kernel: Any) -> dict[str, str]:
    options = kernel._compiler_options
    return {each.name: str(getattr(options, each.name)) for each in dataclasses.fields(options)}


def _dispatcher_row(kernel: Any) -> dict[str, Any]:
    function = kernel._pyfunc
    code = function.__code__
    given = {name: value for name, value in _options(kernel).items() if value != "None"}
    return {"framework": FRAMEWORK, "name": function.__qualname__.replace("<locals>.", ""),
            "module": function.__module__, "filename": code.co_filename, "lineno": code.co_firstlineno,
            **function_facts(code), "options": json.dumps(given) if given else None,
            "attributes": json.dumps({"owner": written(function)[1]})}


def _ordinal() -> int:
    found = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuCtxGetDevice(ctypes.byref(found))
    return found.value
