"""Hooks on numba-cuda-mlir's compiles: outcome, passes and disk cache. None is on the launch path."""

from __future__ import annotations

import json
import sys
import weakref
from collections.abc import Callable
from typing import Any

from kernelscope.probes.base import Patches, error_text, hook_codes
from kernelscope.probes.numba_cuda.compile import note_definition, pass_rows
from kernelscope.probes.numba_cuda.disk import Look, types_of
from kernelscope.probes.numba_cuda_mlir.kernels import FRAMEWORK, KernelRows, compiled
from kernelscope.probes.sink import Sink
from kernelscope.schema import UNKNOWN

# Hooks on numba-cuda-mlir's compiles: outcome, launch configuration, passes and phases. None is on the launch path.
#
# ``MLIRDispatcher._compile_impl`` is what the native launcher, and a launch that needs its launch configuration, ask
# for a specialization; ``MLIRDispatcher._compile_public`` is what everybody else asks. Both return one that is
# there already where they can. Whether something was compiled is said by ``mlir_optimization.optimize``, which
# every compile ends with.

#: Which function asked, as the schema's triggers; the innermost that is listed counts.
_TRIGGERS = {"specialize": "specialize", "_jit_with_signatures": "eager", "_jit_with_annotations": "eager"}

#: So many known signatures, and launch configurations, are noted with a compile: those before are mostly rows anyway.
_MOST_KNOWN = 32
_MOST_FRAMES = 12

_RECOMPILED = ("recompile() was called before this launch: it drops every specialization, and each is compiled again "
               "when it is launched")


class CompileHooks:
    """Records every compile and disk-cache load while installed.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    rows : KernelRows
        Interns dispatchers, specializations and configurations.
    modules : object
        The modules that are hooked: ``descriptor``, ``optimization``, ``driver``, and ``lock``, the compiler lock.
    """

    def __init__(self, sink: Sink, rows: KernelRows, modules: Any) -> None:
        self.sink = sink
        self.rows = rows
        self.modules = modules
        self.enabled = True
        self._dropped: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()

    def install(self, patches: Patches) -> list[str]:
        """Put the hooks in; return the names of those that this version of numba-cuda-mlir does not have."""
        dispatcher, optimization = self.modules.descriptor.MLIRDispatcher, self.modules.optimization
        linker = getattr(self.modules.driver, "_Linker", None)
        phases = [(optimization, name, "nvvm") for name in ("_call_llvm70_capi", "_compile_to_ptx",
                                                            "_compile_to_ltoir")]
        return patches.hook_all((
            (dispatcher, "_compile_impl", self._asked_by_launch),
            (dispatcher, "_compile_public", self._asked_by_others),
            (dispatcher, "_recompile_impl", self._recompiled),
            (optimization, "optimize", self._optimized),
            *((owner, name, lambda original, phase=phase: self._phase(original, phase))
              for owner, name, phase in (*phases, (linker, "complete", "link"))),
            (type(self.modules.lock), "acquire", self._lock),
        ))

    def _lock(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The compiler lock: a compile's row may have begun before, or begins just after."""

        def acquire(lock: Any) -> Any:
            asked = self.sink.clock()
            result = original(lock)
            state = self.sink.state()
            state.lock_asked, state.lock_held = asked, self.sink.clock()
            if state.compilation is not None and "_waited" in state.compilation:
                state.compilation["_waited"] += state.lock_held - asked
            return result

        return acquire

    def _asked_by_launch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _compile_impl(self_: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.enabled or self._is_inside(self_):
                return original(self_, *args, **kwargs)  # a second try of the same compile
            values = args[0] if args else kwargs.get("args")
            return self._row(self_, self._types(values), "launch", lambda: original(self_, *args, **kwargs))

        return _compile_impl

    def _asked_by_others(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _compile_public(self_: Any, sig: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.enabled or self_.targetoptions.get("device"):
                return original(self_, sig, *args, **kwargs)  # device functions are a part of kernels
            return self._row(self_, sig, _trigger(), lambda: original(self_, sig, *args, **kwargs))

        return _compile_public

    def _is_inside(self, dispatcher: Any) -> bool:
        row = self.sink.state().compilation
        return row is not None and row.get("_owner") is dispatcher

    def _types(self, values: Any) -> Any:
        """The types that a launch has left for its compile, or else those of its arguments."""
        arguments = self.modules.descriptor._compile_arg_types
        types = getattr(arguments, "types", None)
        return tuple(types) if types is not None else tuple(map(self.modules.descriptor.typeof, values or ()))

    def _row(self, dispatcher: Any, sig: Any, trigger: str, ask: Callable[[], Any]) -> Any:
        state = self.sink.state()
        row = self._begin(dispatcher, sig, trigger, state)
        outer, state.compilation = state.compilation, row
        try:
            result = ask()
        except BaseException as error:
            state.compilation = outer
            self._end(row, dispatcher, None, error)
            raise
        state.compilation = outer
        self._end(row, dispatcher, result, None)
        return result

    def _begin(self, dispatcher: Any, sig: Any, trigger: str, state: Any) -> dict[str, Any]:
        """The part of the row that is known before; ``_`` keys are taken out again by `_end`."""
        start = self.sink.clock()
        row: dict[str, Any] = {"start_ns": start, "outcome": "failed", "thread_id": state.thread_id,
                               "trigger": trigger, "_owner": dispatcher, "_waited": 0, "_passes": [],
                               "_compiled": False, "_attributes": {}}
        if trigger == "launch" and state.lock_asked != UNKNOWN:
            # The lock was taken just before, by whoever calls this in this thread.
            row["start_ns"], row["_waited"] = state.lock_asked, state.lock_held - state.lock_asked
        state.lock_asked = UNKNOWN
        try:
            row["_sig"] = sig
            row["_hits"] = sum(dispatcher._cache_hits.values())
            row["signature"] = self.rows.signature_text(sig)
            row["dispatcher_id"] = self.rows.dispatcher(dispatcher)
            known = self.rows.known_before(dispatcher)
            if known:
                row["_attributes"]["known_signatures"] = known[-_MOST_KNOWN:]
            if trigger != "specialize" and self.rows.is_another(row["dispatcher_id"], dispatcher) and not known:
                row["_attributes"]["another_dispatcher"] = True
            configurations = self.rows.known_configurations(dispatcher, sig)
            if configurations:
                row["_attributes"]["known_configurations"] = configurations[-_MOST_KNOWN:]
            marshaller = state.launch_config
            if trigger == "launch" and getattr(marshaller, "_dispatcher", None) is dispatcher:
                row["configuration_id"] = self.rows.configuration(marshaller)
            row["_disk"] = look(dispatcher)
        except Exception as problem:
            self.sink.swallow(FRAMEWORK, problem)
        return row

    def _end(self, row: dict[str, Any], dispatcher: Any, result: Any, error: BaseException | None) -> None:
        """Complete the row and keep it, unless nothing was done."""
        row["end_ns"] = self.sink.clock()
        seen = {name: row.pop(name, None) for name in [name for name in row if name.startswith("_")]}
        try:
            attributes, passes, trigger = seen["_attributes"], seen["_passes"], row["trigger"]
            row["wait_ns"] = seen["_waited"]
            kernel = None if error is not None else self._kernel(dispatcher, result, trigger)
            if error is not None:
                row["error"] = error_text(error)
            elif seen["_compiled"]:
                row["outcome"] = "compiled"
            elif sum(dispatcher._cache_hits.values()) > seen["_hits"]:
                row["outcome"] = "disk"
            elif kernel is not None and self._came_while_waiting(kernel, row):
                row["outcome"] = "wait"
            else:
                return  # it was in memory already: nobody waited for anything
            if kernel is not None:
                self._add_kernel(row, dispatcher, kernel, trigger)
            self._add_cache_columns(row, attributes, seen, dispatcher, kernel)
            note_definition(self.rows, row, attributes)
            if row["signature"] in self._dropped.get(dispatcher, ()) and row["outcome"] == "compiled":
                row.update(reason_code="recompile", reason=_RECOMPILED,
                           fix="drop the call of recompile() unless a global that the kernel reads has changed")
                self._dropped[dispatcher].discard(row["signature"])
            row["attributes"] = json.dumps(attributes) if attributes else None
            self.sink.add_compile(row, passes)
        except Exception as problem:
            self.sink.swallow(FRAMEWORK, problem)

    def _kernel(self, dispatcher: Any, result: Any, trigger: str) -> Any:
        """The compile result behind what was returned: to a launch that is (cubin, name, cooperative)."""
        if trigger != "launch":
            return result
        known = [each for *_, each in compiled(dispatcher)]
        return next((each for each in reversed(known) if each.metadata.get("cubin") is result[0]), None)

    def _came_while_waiting(self, kernel: Any, row: dict[str, Any]) -> bool:
        known = self.rows.specialization_of(kernel)
        return row["wait_ns"] > 0 and self.rows.seen_ns.get(known, 0) > row["start_ns"]

    def _add_kernel(self, row: dict[str, Any], dispatcher: Any, kernel: Any, trigger: str) -> None:
        number = self.rows.specialization(dispatcher, kernel, row["outcome"])
        row["specialization_id"] = number
        row["launch_config_sensitive"] = self.sink.specializations.rows[number]["launch_config_sensitive"]
        if trigger != "launch":  # text, perhaps, which only numba-cuda-mlir may evaluate
            row["signature"] = self.rows.signature_text(kernel.signature)

    def _add_cache_columns(self, row: dict[str, Any], attributes: dict[str, Any], seen: dict[str, Any], dispatcher: Any,
                         kernel: Any) -> None:
        if seen["_disk"] is None or row["outcome"] not in ("compiled", "disk") or row["launch_config_sensitive"]:
            return  # kernels that depend on their launch configuration are kept in memory only
        try:
            note(row, attributes, seen["_disk"], kernel.signature,
                 self.modules.descriptor.mlir_target.target_context)
            if row["outcome"] == "disk":
                others = other_options(dispatcher, kernel)
                if others:
                    attributes["unsafe"] = {"options": others}
        except Exception as problem:  # the compile itself is still a row
            self.sink.swallow(FRAMEWORK, problem)

    def _recompiled(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """``recompile()`` compiles nothing: it drops what there is, and later launches find nothing."""

        def _recompile_impl(self_: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                known = set(self.rows.known_before(self_)) if self.enabled else set()
            except Exception as problem:
                known = set()
                self.sink.swallow(FRAMEWORK, problem)
            result = original(self_, *args, **kwargs)
            if known:
                self._dropped.setdefault(self_, set()).update(known)
            return result

        return _recompile_impl

    def _optimized(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """MLIR's passes, NVVM and the linker; before it numba-cuda-mlir's own passes ran, whose times are known."""

        def optimize(cres: Any, *args: Any, **kwargs: Any) -> Any:
            row = self._present()
            start = self.sink.clock()
            before = 0 if row is None else len(row["_passes"])
            result = original(cres, *args, **kwargs)
            try:
                if row is not None:
                    row["_compiled"] = True
                    inside = sum(entry["duration_ns"] for entry in row["_passes"][before:])
                    row["_passes"][before:before] = [
                        *pass_rows(cres.metadata["pipeline_times"]),
                        {"kind": "phase", "name": "mlir", "start_ns": start,
                         "duration_ns": max(0, self.sink.clock() - start - inside)}]
            except Exception as problem:
                self.sink.swallow(FRAMEWORK, problem)
            return result

        return optimize

    def _phase(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def phase(*args: Any, **kwargs: Any) -> Any:
            row = self._present()
            start = self.sink.clock()
            result = original(*args, **kwargs)
            if row is not None:
                row["_passes"].append({"kind": "phase", "name": name, "start_ns": start,
                                       "duration_ns": self.sink.clock() - start})
            return result

        return phase

    def _present(self) -> dict[str, Any] | None:
        row = self.sink.state().compilation
        return row if self.enabled and row is not None and "_passes" in row else None


def _trigger() -> str:
    """What the caller of ``_compile_public`` was asked by."""
    frame = sys._getframe(2)
    for _ in range(_MOST_FRAMES):
        if str(frame.f_globals.get("__name__")).startswith("numba_cuda_mlir."):
            trigger = _TRIGGERS.get(frame.f_code.co_name)
            if trigger is not None:
                return trigger
        elif frame.f_code not in hook_codes:
            return "compile"  # user code
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "compile"


# numba-cuda-mlir's disk cache, as far as a compile's row says it; see `kernelscope.probes.numba_cuda.disk`.

#: Options that change the code and are no part of the cache's key, with what they are where nothing is said.
_OPTIONS = {"debug": False, "lineinfo": False, "fastmath": False, "opt_level": 3, "max_registers": None,
            "ptxas_options": None, "features": None, "shared_memory_carveout": None}


def look(dispatcher: Any) -> Look | None:
    """Read the index of a dispatcher's disk cache; None where it has none."""
    return None if getattr(dispatcher._cache, "_cache_file", None) is None else Look.of(dispatcher._cache)


def note(row: dict[str, Any], attributes: dict[str, Any], seen: Look, sig: Any, context: Any) -> None:
    """Add the cache's columns to a compile's row, and what the cache had to its attributes.

    Parameters
    ----------
    row, attributes : dict
        The row of ``compilations``, its outcome included, and its attributes.
    seen : Look
        What `look` found before.
    sig : object
        The signature that the cache was asked for.
    context : object
        numba-cuda-mlir's target context.
    """
    file = seen.cache._cache_file
    row["cache_file"] = file._index_path
    key = seen.cache._index_key(sig, context.codegen())
    row["cache_key"] = repr(key)
    state, entries = seen.entries()
    if row["outcome"] == "disk":
        row["cache_data_file"] = seen.data_file(key)
        return
    if state is not None:
        attributes["disk"] = state
    elif key in entries:
        attributes["disk"] = {"state": "data_file"}
    elif not any(types_of(known[0]) == types_of(key[0]) for known in entries):
        attributes["disk"] = {"state": "types", "signatures": len({types_of(known[0]) for known in entries})}
    else:
        attributes["disk"] = {"state": "keys", "differs": {}}
    if row["outcome"] == "compiled":
        row["cache_data_file"] = Look.of(seen.cache).data_file(key)


def other_options(dispatcher: Any, kernel: Any) -> dict[str, list[Any]]:
    """Return the options of a kernel from the disk that differ from its dispatcher's: [loaded, defined]."""
    loaded, defined = kernel.metadata.get("targetoptions") or {}, dispatcher.targetoptions
    compared = {name: (loaded.get(name, usual), defined.get(name, usual)) for name, usual in _OPTIONS.items()}
    return {name: [_plain(was), _plain(now)] for name, (was, now) in compared.items() if was != now}


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
