"""Hooks on dynamo's compiles: stages, guards that failed, graph breaks, caches, and inductor's kernels."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from kernelscope.native.log import from_signal_handler
from kernelscope.probes.base import Patches, error_text
from kernelscope.probes.sink import Sink
from kernelscope.probes.torch.arguments import described, names_of, signature, with_dynamic

# What is used of torch, the most stable first:
# - ``torch._dynamo.utils.counters`` counts graphs, hits of caches and skips; it is read before and after a compile.
# - ``torch._dynamo.utils.graph_break_reasons`` lists graph breaks with their lines; what a compile adds is its own.
# - ``torch._dynamo.convert_frame._compile`` is called once for each frame that dynamo compiles.
# - ``torch._dynamo.guards.get_and_maybe_log_recompilation_reasons`` returns what ``TORCH_LOGS=recompiles`` prints.
# - ``ChromiumEventLogger.log_event_end`` is what every ``dynamo_timed`` ends in, which ``tlparse`` shows. Of these
#   CompilationMetrics has sums only; ``torch._dynamo.callback`` tells of the outermost compile only, without times.
# - ``CompiledFxGraph.post_compile`` is given each graph of inductor's, also one that comes from a cache.

FRAMEWORK = "torch.compile"

#: dynamo_timed's names, and what the passes are called; the others are parts of these or short.
STAGES = {
    "bytecode_tracing": "dynamo", "build_guards": "guards", "create_aot_dispatcher_function": "AOTAutograd",
    "_recursive_pre_grad_passes": "graph passes", "_recursive_joint_graph_passes": "graph passes",
    "_recursive_post_grad_passes": "graph passes", "min_cut_rematerialization_partition": "partition",
    "inductor_compile": "inductor", "GraphLowering.run": "lowering", "GraphLowering.codegen": "code generation",
    "PyCodeCache.load_by_key_path": "Triton and C++", "AOTAutogradCache.inductor_load": "cache load",
}
#: What runs when a compiled function is called: it belongs to the compile, and is no part of its time.
_AUTOTUNING = ("CachingAutotuner.benchmark_all_configs", "CachingAutotuner.coordinate_descent_tuning")
_BACKWARD = "entire_backward_compile"

_CACHES = {
    "fx_graph_hits": ("inductor", "fxgraph_cache_hit"), "fx_graph_misses": ("inductor", "fxgraph_cache_miss"),
    "fx_graph_bypasses": ("inductor", "fxgraph_cache_bypass"),
    "aot_autograd_hits": ("aot_autograd", "autograd_cache_hit"),
    "aot_autograd_misses": ("aot_autograd", "autograd_cache_miss"),
    "aot_autograd_bypasses": ("aot_autograd", "autograd_cache_bypass"),
}
_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(", re.MULTILINE)
_EXTERN = re.compile(r"\b(?:extern_kernels\.(\w+)|torch\.ops\.(\w+\.\w+)\.\w+)\(")
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(.+)_at_(\d+)$")
_MOST_KERNELS, _MOST_BREAKS, _MOST_TEXT, _MOST_EVENTS = 100, 20, 400, 4096


@dataclass
class Compile:
    """A compile under way in one thread, and the numbers of torch's counters when it began."""

    start: int
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    breaks: int = 0
    guards: list[str] = field(default_factory=list[str])
    stages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    graphs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    #: Why graphs are not run as CUDA graphs.
    skips: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


@dataclass
class Written:
    """A compile that has been written: what happens later is added to its attributes when recording stops."""

    row: dict[str, Any]
    attributes: dict[str, Any]
    later: dict[str, Any] = field(default_factory=dict[str, Any])


class _Thread(threading.local):
    def __init__(self) -> None:
        self.under_way: list[Compile] = []
        #: Stages and graphs outside of a compile: of a backward pass that is compiled when it first runs.
        self.loose = Compile(0)


class CompileHooks:
    """Records every compile of a frame, and of a backward pass, while installed.

    Parameters
    ----------
    sink : Sink
        Where rows go.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.enabled = True
        self._threads = _Thread()
        #: By torch's id of the compile, as in ``0/1``.
        self._written: dict[str, Written] = {}

    def install(self, patches: Patches, frames: Any, guards: Any, utils: Any) -> None:
        """Put the hooks in: the modules are ``convert_frame``, ``guards`` and ``utils`` of ``torch._dynamo``."""
        self._utils = utils
        patches.hook(frames, "_compile", self._make_compile)
        patches.hook(guards, "get_and_maybe_log_recompilation_reasons", self._make_reasons)
        patches.hook(utils.ChromiumEventLogger, "log_event_end", self._make_event)

    def later(self, compile_id: str) -> dict[str, Any] | None:
        """Return where to note what happens after a compile; None for one that was not recorded."""
        written = self._written.get(compile_id)
        return None if written is None else written.later

    def note_skip(self, event: dict[str, Any]) -> bool:
        """Note that what this thread compiles is not run as a CUDA graph; return False where it compiles nothing."""
        under_way = self._threads.under_way
        if not under_way:
            return False
        under_way[-1].skips.append(event)
        return True

    def publish(self) -> None:
        """Write what happened after the compiles."""
        for each in self._written.values():
            if each.later:
                each.row["attributes"] = json.dumps({**each.attributes, **each.later})

    def guard(self, problem: Exception) -> None:
        """Swallow what is our own; raise what the user's signal handler raised."""
        if from_signal_handler(problem):
            raise problem
        self.sink.swallow(FRAMEWORK, problem)

    # The hooks.

    def _make_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def _compile(code: Any, globals: Any, locals: Any, *args: Any, **kwargs: Any) -> Any:
            if not self.enabled:
                return original(code, globals, locals, *args, **kwargs)
            under_way = self._begin(code, locals)
            try:
                result = original(code, globals, locals, *args, **kwargs)
            except BaseException as error:
                self._end(under_way, code, globals, kwargs.get("compile_id"), None, error)
                raise
            self._end(under_way, code, globals, kwargs.get("compile_id"), result, None)
            return result

        return _compile

    def _make_reasons(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def get_and_maybe_log_recompilation_reasons(*args: Any, **kwargs: Any) -> Any:
            reasons = original(*args, **kwargs)
            under_way = self._threads.under_way
            if self.enabled and under_way and not under_way[-1].guards:
                try:
                    under_way[-1].guards = [str(each) for each in reasons or ()]
                except Exception as problem:
                    self.guard(problem)
            return reasons

        return get_and_maybe_log_recompilation_reasons

    def _make_event(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def log_event_end(logger: Any, event_name: Any, time_ns: Any, metadata: Any, start_time_ns: Any, *args: Any,
                          **kwargs: Any) -> Any:
            if self.enabled:
                try:
                    self._stage(event_name, time_ns - start_time_ns, args[1] if len(args) > 1 else None)
                except Exception as problem:
                    self.guard(problem)
            return original(logger, event_name, time_ns, metadata, start_time_ns, *args, **kwargs)

        return log_event_end

    def make_post_compile(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the hook on ``CompiledFxGraph.post_compile``, which is given each graph of inductor's."""

        def post_compile(graph: Any, example_inputs: Any, constants: Any, graph_kwargs: Any) -> Any:
            if self.enabled:
                try:
                    self._graph(graph, graph_kwargs)
                except Exception as problem:
                    self.guard(problem)
            return original(graph, example_inputs, constants, graph_kwargs)

        return post_compile

    # What they do.

    def _begin(self, code: CodeType, values: Mapping[str, Any]) -> Compile:
        under_way = Compile(self.sink.clock())
        self._threads.under_way.append(under_way)
        try:
            under_way.counters = self._counters()
            under_way.breaks = len(self._utils.graph_break_reasons)
            under_way.arguments = described(code, values)
        except Exception as problem:
            self.guard(problem)
        return under_way

    def _end(self, under_way: Compile, code: CodeType, names: Mapping[str, Any], compile_id: Any, result: Any,
             error: BaseException | None) -> None:
        end = self.sink.clock()
        stack = self._threads.under_way
        del stack[stack.index(under_way):]
        try:
            guarded = getattr(result, "guarded_code", None)
            if guarded is None and error is None:
                return  # dynamo found nothing to compile in this frame
            given = under_way.arguments
            if guarded is not None:
                under_way.arguments = with_dynamic(given, getattr(guarded.guard_manager, "code_parts", None) or ())
            counted = {name: count - under_way.counters.get(name, 0) for name, count in self._counters().items()}
            counted = {name: count for name, count in counted.items() if count > 0}
            hit = counted.get("fx_graph_hits", 0) and not (
                counted.get("fx_graph_misses", 0) or counted.get("fx_graph_bypasses", 0))
            written = self._write(under_way, end, {
                "dispatcher_id": self._dispatcher(code, names), "signature": signature(under_way.arguments),
                "outcome": "failed" if error is not None else "disk" if hit else "compiled",
                "error": None if error is None else error_text(error),
            }, {"compile_id": str(compile_id), "guards": [_shown(each) for each in under_way.guards],
                "arguments": given if given != under_way.arguments else None, "caches": counted,
                "graph_breaks": self._breaks(under_way, code)})
            if under_way.skips:
                written.later["cuda_graphs"] = under_way.skips
            self._written[str(compile_id)] = written
        except Exception as problem:
            self.guard(problem)

    def _stage(self, name: str, duration: int, compile_id: Any) -> None:
        threads, end = self._threads, self.sink.clock()
        under_way = threads.under_way[-1] if threads.under_way else None
        if name in STAGES:
            stages = (under_way or threads.loose).stages
            stages.append({"kind": "phase", "name": STAGES[name], "start_ns": end - duration, "duration_ns": duration})
            if under_way is None and len(stages) > _MOST_EVENTS:
                stages.clear()
        elif name == _BACKWARD and under_way is None:
            self._backward(end - duration, end)
        elif name in _AUTOTUNING and compile_id is not None:
            later = self.later(str(compile_id))
            if later is not None:
                noted = later.setdefault("autotuning", {"kernels": 0, "duration_ns": 0})
                noted["kernels"] += 1
                noted["duration_ns"] += duration

    def _backward(self, start: int, end: int) -> None:
        """Write the compile of a backward pass, in the thread that runs it."""
        loose, self._threads.loose = self._threads.loose, Compile(0)
        compile_id = sys.modules["torch._guards"].CompileContext.current_compile_id()
        forward = self._written.get(str(compile_id))
        if forward is None:
            return  # its forward pass was compiled before the recording
        under_way = Compile(start, stages=[each for each in loose.stages if each["start_ns"] >= start],
                            graphs=loose.graphs)
        lowered = any(each["name"] == STAGES["GraphLowering.run"] for each in under_way.stages)
        self._write(under_way, end, {
            "dispatcher_id": forward.row["dispatcher_id"], "signature": forward.row["signature"],
            "outcome": "disk" if under_way.graphs and not lowered else "compiled",
        }, {"compile_id": str(compile_id), "backward": True})

    def _graph(self, graph: Any, graph_kwargs: Mapping[str, Any]) -> None:
        threads = self._threads
        source = getattr(graph, "source_code", None) or ""
        kernels = _KERNEL.findall(source)
        extern = list(dict.fromkeys(own or operator for own, operator in _EXTERN.findall(source)))
        found: dict[str, Any] = {
            "cache_key": getattr(graph, "_fx_graph_cache_key", None), "backward": bool(graph_kwargs.get("is_backward")),
            "devices": sorted(map(str, getattr(graph, "device_types", ()))), "kernels": kernels[:_MOST_KERNELS]}
        states = _autotune_states(graph, kernels)
        if extern:
            found["extern"] = extern[:_MOST_KERNELS]
        if states:
            found["autotune_cache"] = states
        graphs = (threads.under_way[-1] if threads.under_way else threads.loose).graphs
        graphs.append(found)
        if not threads.under_way:
            del graphs[:-_MOST_BREAKS]

    def _write(self, under_way: Compile, end: int, row: dict[str, Any], attributes: dict[str, Any]) -> Written:
        attributes = {name: value for name, value in {**attributes, "inductor": under_way.graphs}.items() if value}
        keys = [each["cache_key"] for each in under_way.graphs if each["cache_key"]]
        row.update(thread_id=self.sink.state().thread_id, trigger="launch", start_ns=under_way.start, end_ns=end,
                   cache_key=keys[0] if keys else None, cache_file=_folder(keys[0]) if keys else None,
                   attributes=json.dumps(attributes))
        self.sink.add_compile(row, under_way.stages)
        return Written(row, attributes)

    def _dispatcher(self, code: CodeType, names: Mapping[str, Any]) -> int:
        resumed = _RESUMED.match(code.co_name)
        name = f"{resumed[1]} (resumed at line {resumed[2]})" if resumed else code.co_qualname.replace("<locals>.", "")
        # What comes after a graph break is compiled as a function that dynamo makes, anew after a reset.
        key = (code.co_filename, code.co_firstlineno, code.co_name) if resumed else id(code)
        return self.sink.dispatchers.intern((FRAMEWORK, key), lambda: {
            "framework": FRAMEWORK, "name": name, "module": str(names.get("__name__", "")),
            "filename": code.co_filename, "lineno": code.co_firstlineno, "arguments": ", ".join(names_of(code)),
        }, live=code)

    def _counters(self) -> dict[str, int]:
        counters = self._utils.counters
        return {name: int(counters[group][key]) for name, (group, key) in _CACHES.items()
                if group in counters and key in counters[group]}

    def _breaks(self, under_way: Compile, code: CodeType) -> list[dict[str, Any]]:
        """The graph breaks that a compile has found, each place once."""
        found: dict[tuple[str, int | None], dict[str, Any]] = {}
        for each in self._utils.graph_break_reasons[under_way.breaks:]:
            stack = each.user_stack
            line = stack[-1].lineno if stack else None
            known = found.setdefault((each.reason, line), {
                "reason": each.reason[:_MOST_TEXT], "line": line, "function": stack[-1].name if stack else None,
                "times": 0})
            known["times"] += 1
            if stack and stack[-1].filename != code.co_filename:
                known["file"] = os.path.basename(stack[-1].filename)
        return list(found.values())[:_MOST_BREAKS]


def _shown(guard: str) -> str:
    """A guard's text without the user's code and folders: what torch checks, where it is, and torch's hints."""
    check, _, place = guard.partition("\nUser stack trace:")[0].partition("  # ")
    place = re.sub(r"[^\s(]*/", "", place.rpartition("  # ")[2])
    return f"{check.rstrip()}  # {place}"[:_MOST_TEXT] if place else check[:_MOST_TEXT]


def _folder(key: str) -> str | None:
    """Where the FX graph cache keeps a graph."""
    cache = getattr(sys.modules.get("torch._inductor.codecache"), "FxGraphCache", None)
    find = getattr(cache, "_get_tmp_dir_for_key", None)
    return None if find is None else str(find(key))


def _autotune_states(graph: Any, kernels: list[str]) -> dict[str, int]:
    """How often inductor's autotuners found their best configuration in their cache: hit, miss, and so on."""
    runner = getattr(graph, "current_callable", None)
    module = getattr(runner, "__globals__", {})
    found: dict[str, int] = {}
    for name in kernels:
        held = getattr(module.get(name), "autotune_cache_info", None)
        if isinstance(held, dict) and "autotune_cache_state" in held:
            state = str(held["autotune_cache_state"])
            found[state] = found.get(state, 0) + 1
    return found
