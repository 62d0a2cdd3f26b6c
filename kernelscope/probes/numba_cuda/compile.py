"""Hooks on numba-cuda's compiles: outcome, launch configuration, passes and link phases. None is on the launch path."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from kernelscope.probes.base import Patches, hook_codes
from kernelscope.probes.numba_cuda import disk
from kernelscope.probes.numba_cuda.captured import Hits
from kernelscope.probes.numba_cuda.device_builds import DeviceBuilds
from kernelscope.probes.numba_cuda.facts import Facts, is_sensitive
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
    facts : Facts
        Interns dispatchers, specializations and configurations.
    modules : object
        The modules of numba-cuda that are hooked: ``dispatcher``, ``codegen``, ``driver``, ``launchconfig``, ``lock``.
    """

    def __init__(self, sink: Sink, facts: Facts, modules: Any) -> None:
        self.sink = sink
        self.facts = facts
        self.modules = modules
        self.enabled = True
        self.hits = Hits(sink, modules)
        self._device_builds = DeviceBuilds(sink, facts, modules)

    def install(self, patches: Patches) -> list[str]:
        """Put the hooks in; return the names of those that this version of numba-cuda does not have."""
        modules, missing = self.modules, []

        def attempt(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
            if not callable(vars(owner).get(name)):
                missing.append(f"{getattr(owner, '__name__', owner)}.{name}")
                return
            patches.hook(owner, name, lambda original: self._seen(make(original)))

        attempt(type(modules.lock), "acquire", self._lock)
        attempt(modules.dispatcher.CUDADispatcher, "compile", self._compile)
        attempt(modules.dispatcher, "compile_cuda", self._pipeline)
        for method, cache, phase in _BUILDERS:
            attempt(modules.codegen.CUDACodeLibrary, method,
                    lambda original, cache=cache, phase=phase: self._builder(original, cache, phase))
        attempt(modules.driver.Context, "create_module_image", self._load)
        return missing

    @staticmethod
    def _seen(hook: Any) -> Any:
        hook_codes.add(hook.__code__)
        return hook

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
            row["signature"] = self.facts.signature_text(sig)
            row["dispatcher_id"] = self.facts.dispatcher(dispatcher)
            known = [*self.facts.known_of_others(row["dispatcher_id"], dispatcher),
                     *self.facts.known_before(dispatcher)]
            attributes: dict[str, Any] = {"known_signatures": known[-_MOST_KNOWN:]} if known else {}
            passed = [array_kind(value) for value in values]
            if any(passed):
                attributes["passed"] = passed
            if row["trigger"] == "specialize":
                attributes |= {"forall": True} if caller == "forall" else {}
            elif self.facts.is_another(row["dispatcher_id"], dispatcher) and not known:
                attributes["another_dispatcher"] = True
            configurations = self.facts.known_configurations(dispatcher, sig)
            if configurations:
                attributes["known_configurations"] = configurations[-_MOST_KNOWN:]
            row["_attributes"] = attributes
            config = self.modules.launchconfig.current_launch_config()
            if config is not None:
                row["configuration_id"] = self.facts.configuration(config)
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
                row["error"] = f"{type(error).__name__}: {first_line(error)}".removesuffix(": ")
            elif sum(dispatcher._cache_misses.values()) > misses:
                row["outcome"] = "compiled"
            elif sum(dispatcher._cache_hits.values()) > hits:
                row["outcome"] = "disk"
            elif row["trigger"] == "launch":
                row["outcome"] = "wait"
            else:
                return  # it was in memory already: nobody waited for anything
            if kernel is not None:
                row["specialization_id"] = self.facts.specialization(dispatcher, kernel, row["outcome"])
                row["launch_config_sensitive"] = is_sensitive(dispatcher, kernel)
                if isinstance(sig, str):  # given to kernel.compile() as text, which only numba-cuda may evaluate
                    row["signature"] = self.facts.signature_text(kernel.argument_types)
            if seen is not None:
                self._add_cache_facts(row, seen, dispatcher, sig, kernel, error, attributes)
            note_definition(self.facts, row, attributes)
            row["attributes"] = json.dumps(attributes) if attributes else None
            with self.sink.lock:
                number = len(self.sink.compilations)
                self.sink.compilations.append(row)
                for entry in passes:
                    entry["compilation_id"] = number
                    entry["specialization_id"] = row.get("specialization_id")
                self.sink.passes.extend(passes)
            self.sink.flush()
        except Exception as problem:
            self.sink.swallow("numba-cuda", problem)

    def _add_cache_facts(self, row: dict[str, Any], seen: disk.Look, dispatcher: Any, sig: Any, kernel: Any,
                         error: BaseException | None, attributes: dict[str, Any]) -> None:
        try:
            disk.note(row, attributes, seen, dispatcher, sig, kernel, error, self.modules.dispatcher)
            if row["outcome"] == "disk":
                others = disk.other_options(dispatcher, kernel)
                definition = self.facts.definition(row["dispatcher_id"])
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
                known = UNKNOWN if state.launch_config is None else self.facts.specialization_of(state.kernel)
                self.sink.passes.append({**entry, "specialization_id": None if known == UNKNOWN else known})
        except Exception as problem:
            self.sink.swallow("numba-cuda", problem)


def note_definition(facts: Facts, row: dict[str, Any], attributes: dict[str, Any]) -> None:
    """Add to a compile's attributes what its definition has changed, and remember what was compiled."""
    definition = facts.definition(row["dispatcher_id"])
    if row["trigger"] == "recompile":
        if "known_signatures" not in attributes:  # it compiles one signature after the other, and this is the first
            definition.recompile()
        attributes["recompiled"] = definition.recompiled
    elif definition.captured is None or row["outcome"] == "compiled":
        definition.look()
    changes = facts.changes(row["dispatcher_id"])
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


def first_line(error: BaseException) -> str:
    """Return what an exception of a compile says, without numba's words about where in its pipeline it was."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # numba's "Failed in cuda mode pipeline (step: ...)" only says where; what is wrong stands below it.
    if len(lines) > 1 and lines[0].startswith("Failed in "):
        del lines[0]
    return lines[0][:300] if lines else ""
