"""What Quadrants' functions do while they are recorded: calls, compiles and graphs."""

from __future__ import annotations

import json
from collections.abc import Callable
from threading import get_ident
from types import FunctionType
from typing import Any

import numpy as np

from kernelscope.errors import message_of
from kernelscope.native.log import ThreadState, from_signal_handler
from kernelscope.probes.base import Patches, hide_frame, hook_codes
from kernelscope.probes.quadrants.kernels import KernelRows
from kernelscope.probes.sink import LAUNCH, Sink

# Quadrants' compiles: the front end once a specialization, and machine code that is made or found in a cache.
#
# Two caches can spare work. The fast cache (``src_ll_cache``, for kernels that say ``fastcache=True``) knows a
# kernel by its source and arguments, and spares the front end too. The offline cache (``fe_ll_cache``) knows it
# by what the front end made, and spares the machine code. Both are disk caches; a Program keeps in memory what it
# has used.

_FAST = "loaded from Quadrants' fast cache, which knows the kernel by its source and arguments: nothing was compiled"
_OFFLINE = ("its machine code was in Quadrants' offline cache; the front end ran, which finds out which kernel it is")
_OFFLINE_FIX = "@qd.kernel(fastcache=True) spares the front end too, where the kernel reads no globals that change"


class Compile:
    """A compile under way in one thread.

    Attributes
    ----------
    key
        Quadrants' key of the specialization; None where the front end had done its part before.
    start : int
        When the front end began, in nanoseconds; `front_end_end` when it had ended.
    code : tuple of int or None
        When the machine code was asked for, and when it was there.
    """

    __slots__ = ("cache_key", "code", "fast", "front_end_end", "hit", "key", "start")

    def __init__(self, key: Any, start: int) -> None:
        self.key = key
        self.start = start
        self.front_end_end: int | None = None
        self.fast = False
        self.code: tuple[int, int] | None = None
        self.hit: bool | None = None
        self.cache_key: str | None = None


class Compiles:
    """Writes ``compilations`` and ``passes``."""

    def __init__(self, sink: Sink, kernels: KernelRows) -> None:
        self._sink = sink
        self._kernels = kernels

    def front_end_done(self, state: ThreadState) -> None:
        """The thread's launch has its specialization."""
        state.compilation.front_end_end = self._sink.clock()

    def code_made(self, state: ThreadState, start: int, result: Any) -> None:
        """The machine code, which was asked for at `start`, is there."""
        under_way = state.compilation
        under_way.code = start, self._sink.clock()
        under_way.hit = bool(result.cache_hit)
        under_way.cache_key = str(result.cache_key)

    def finish(self, state: ThreadState, kernel: Any, error: BaseException | None = None) -> None:
        """Write the thread's compile, which was for `kernel`; `error` is what ended its launch."""
        under_way: Compile = state.compilation
        state.compilation = None
        now = self._sink.clock()
        key = kernel._last_launch_key if under_way.key is None else under_way.key
        under_way.fast = under_way.hit is None and kernel.compiled_kernel_data_by_key.get(key) is not None
        ends = [under_way.code[1] if under_way.code else None, under_way.front_end_end, now]
        end = next(each for each in ends if each is not None)
        # What failed after the machine code was there, failed to launch.
        failed = error is not None and under_way.hit is None and not under_way.fast
        outcome = "failed" if failed else _outcome(under_way, kernel)
        specialization = None
        if not failed:
            specialization = self._kernels.specialization(kernel, key, outcome)
        row = {
            "dispatcher_id": self._kernels.dispatcher(kernel), "specialization_id": specialization,
            "thread_id": state.thread_id, "trigger": "launch",
            "signature": self._kernels.signature(kernel, key), "start_ns": under_way.start,
            "end_ns": now if failed else end, "outcome": outcome,
            "error": _shown(error) if failed else None,
            "cache_key": under_way.cache_key, "cache_file": self._kernels.cache_folder(kernel),
            "attributes": json.dumps(_caches(under_way, kernel)),
            **self._reason(under_way, outcome, kernel, key),
        }
        phases = [("front end", under_way.start, under_way.front_end_end)]
        if under_way.code is not None:
            phases.append(("code", *under_way.code))
        self._sink.add_compile(row, (
            {"kind": "phase", "name": name, "start_ns": start, "duration_ns": end - start}
            for name, start, end in phases if end is not None and end > start))

    def _reason(self, under_way: Compile, outcome: str, kernel: Any, key: Any) -> dict[str, str]:
        """Reasons that the arguments' types do not tell; what they tell is found out when recording has ended."""
        if outcome == "disk" and under_way.fast:
            return {"reason_code": "disk", "reason": _FAST}
        if outcome == "disk":
            return {"reason_code": "disk", "reason": _OFFLINE, "fix": _OFFLINE_FIX}
        return self._kernels.reason(kernel, key) if outcome == "compiled" else {}


def _outcome(under_way: Compile, kernel: Any) -> str:
    if under_way.hit is not None:
        return "disk" if under_way.hit else "compiled"
    if under_way.fast:
        return "disk" if kernel.src_ll_cache_observations.cache_loaded else "wait"
    return "compiled"


def _shown(error: BaseException | None) -> str:
    """The exception's type and last line: Quadrants puts a traceback of its own before it."""
    lines = message_of(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"


def _caches(under_way: Compile, kernel: Any) -> dict[str, Any]:
    """What Quadrants' caches did, as Quadrants calls it."""
    caches: dict[str, Any] = {}
    fast = kernel.src_ll_cache_observations
    if fast.cache_key_generated:
        caches["src_ll_cache"] = "loaded" if under_way.fast else "stored" if fast.cache_stored else "missed"
    if under_way.hit is not None:
        caches["fe_ll_cache"] = "hit" if under_way.hit else "missed"
    return caches


# Graphs that Quadrants makes of ``@qd.kernel(graph=True)``: what its Program tells after each launch.
#
# Where CUPTI watches graphs, its events have the times, the nodes and the ids, and these only add which kernel a
# graph is of. Where it does not, they stand for themselves. One call of Quadrants' runtime builds a graph and
# launches it: the build's time has the first launch in it, and that launch is written as of its end.

_COLUMNS = len(LAUNCH)


class GraphLog:
    """Collects the graphs' builds and launches of one session; `publish` hands them to the sink."""

    def __init__(self, sink: Sink, kernels: KernelRows) -> None:
        self._sink = sink
        self._kernels = kernels
        self._events: list[dict[str, Any]] = []
        #: Numbers only, `LAUNCH` after `LAUNCH`; the executable graph is a position in `_events`.
        self._launches: list[int] = []
        #: By the ``id`` of a specialization's KernelCxx, the position in `_events` of what made its executable graph.
        self._execs: dict[int, int] = {}
        self._plain: set[int] = set()
        self._published: dict[int, int] = {}
        #: What this Quadrants does not have, so that graphs cannot be told.
        self.missing = False

    def builds(self, kernel: Any) -> int:
        """How many graphs the kernel's program has built; 0 before it has one."""
        program = kernel.runtime._prog
        return 0 if program is None or self.missing else program.get_graph_total_builds()

    def launched(self, kernel: Any, state: ThreadState, start: float, end: float, before: int) -> None:
        """A kernel with ``graph=True`` was launched; `before` is how many graphs there were."""
        if self.missing:
            return
        program, number = kernel.runtime._prog, id(state.kernel)
        if not program.get_graph_cache_used_on_last_call():
            if number not in self._plain:
                self._plain.add(number)
                self._kernels.fell_back(kernel, number)
            return
        submitted = state.submit_start if state.submit_start >= start else start
        returned = state.submit_end if state.submit_end >= submitted else end
        first, last = round(submitted * 1e9), round(returned * 1e9)
        built = program.get_graph_total_builds() > before
        position = self._execs.get(number)
        if built or position is None:
            position = self._event(kernel, program, state, first if built else None, last if built else None)
            self._execs[number] = position
        if built:
            first = last
        self._launches += (position, 0, state.ident & 0xFFFFFFFF, first, last, 0)

    def forget(self, number: int) -> None:
        """The KernelCxx of that ``id`` is a new one."""
        self._execs.pop(number, None)
        self._plain.discard(number)

    def publish(self) -> None:
        """Hand over what was collected since the last time."""
        if not self._events:
            return
        rows = self._sink.graphs
        if rows.execs:
            self._describe_native()
            return
        for position, event in enumerate(self._events):
            if position not in self._published:
                self._published[position] = len(rows.events)
                rows.events.append({**event, "exec_id": len(rows.events)})
        count = len(self._launches) // _COLUMNS
        mine = np.array(self._launches[:count * _COLUMNS], np.int64).reshape(-1, _COLUMNS)
        place = np.array([self._published[position] for position in range(len(self._events))], np.int64)
        mine[:, 0] = place[mine[:, 0]]
        others = ~np.isin(rows.launches["exec"], place)
        rows.launches = {name: np.concatenate([rows.launches[name][others], mine[:, number]])
                         for number, name in enumerate(LAUNCH)}

    def _event(self, kernel: Any, program: Any, state: ThreadState, start: int | None, end: int | None) -> int:
        attributes = {
            "framework": "quadrants", "kernel": self._kernels.name(kernel),
            "nodes": program.get_graph_num_nodes_on_last_call(),
            "cache_size": program.get_graph_cache_size(), "do_while": self._kernels.loops(kernel),
            "checkpoints": program.get_graph_num_checkpoints_on_last_call(),
        }
        self._events.append({
            "kind": "before" if start is None else "instantiate", "graph_id": None, "stream": 0,
            "thread_ident": state.ident, "line_id": self._sink.line(),
            "start_ns": start, "end_ns": end, "outcome": "ok",
            "attributes": json.dumps({name: value for name, value in attributes.items() if value}),
        })
        return len(self._events) - 1

    def _describe_native(self) -> None:
        """Give the graphs that CUPTI saw being built inside of ours the kernel that they are of."""
        built = [event for event in self._events if event["start_ns"] is not None]
        for event in self._sink.graphs.events:
            if event["kind"] != "instantiate" or event.get("attributes"):
                continue
            for mine in built:
                if (event.get("thread_ident") == mine["thread_ident"]
                        and mine["start_ns"] <= event["start_ns"] <= mine["end_ns"]):
                    event["attributes"] = mine["attributes"]


# What Quadrants' functions do while they are recorded.
#
# ``Kernel.__call__`` begins and ends a launch. ``KernelCxx.make_launch_context``, which is what it asks of the
# specialization that it has found, ends its dispatch. ``Program.launch_kernel`` is the call of Quadrants' runtime,
# which launches one CUDA kernel for each top-level loop, or one graph. ``Kernel._try_load_fastcache`` is what
# ``Kernel.materialize`` does first where a specialization is missing, before the front end makes it;
# ``Program.compile_kernel`` makes the machine code or finds it in a cache. Neither of these two is on the path of a
# launch whose specialization is there.
#
# `call` is a template: Quadrants' own method runs its code, with `Hooks` as a keyword's default. It takes any
# arguments, which nothing here looks at or keeps.

PROBE = "quadrants"


def call(self: Any, *py_args: Any, _kernelscope: Any = None, **kwargs: Any) -> Any:
    """In place of ``Kernel.__call__``: one launch."""
    hooks = _kernelscope
    if not hooks.enabled:
        try:
            return hooks.original_call(self, *py_args, **kwargs)
        except BaseException as error:
            error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
            raise
    try:
        state = hooks.states[hooks.ident()]
    except KeyError:
        state = hooks.new_state()
    outer = state.kernel
    state.kernel = self
    builds = hooks.builds(self) if self.use_graph else None
    start = hooks.now()
    try:
        result = hooks.original_call(self, *py_args, **kwargs)
    except BaseException as error:
        hooks.failed(state, self, kwargs, start, error)
        state.kernel = outer
        error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
        raise
    end = hooks.now()
    try:
        target = hooks.targets.get(id(state.kernel))
        if target is None:
            target = hooks.first(state, self)
        configuration = hooks.configuration_of(kwargs) if kwargs else hooks.configuration
        if builds is not None:
            hooks.graphs.launched(self, state, start, end, builds)
        if hooks.phases:
            state.write(start, state.dispatch_end, state.submit_start, state.submit_end, end, target, configuration)
        else:
            state.write(start, -1.0, -1.0, -1.0, end, target, configuration)
    except Exception as problem:
        state.kernel = outer
        hooks.lost(problem)
        return result
    state.kernel = outer
    return result


class Hooks:
    """What the hooks work with, and what they do away from the path of a launch that finds its specialization.

    Parameters
    ----------
    sink : Sink
        Where records go.
    kernels : KernelRows
        Makes the rows of kernels and specializations.
    """

    __slots__ = ("_compiles", "_kernels", "_sink", "configuration", "enabled", "graphs", "ident", "new_state", "now",
                 "original_call", "phases", "states", "targets")

    def __init__(self, sink: Sink, kernels: KernelRows) -> None:
        self._sink = sink
        self._kernels = kernels
        self._compiles = Compiles(sink, kernels)
        self.graphs = GraphLog(sink, kernels)
        self.enabled = True
        self.states, self.ident, self.new_state = sink.states, get_ident, sink.state
        self.now = sink.seconds
        self.phases = sink.detail == "phases"
        #: By the ``id`` of a specialization's KernelCxx, which must not be kept alive beyond its Program.
        self.targets: dict[int, int] = {}
        self.configuration = sink.configuration(None, None, None, 0)

    def install(self, patches: Patches, kernel: Any, compiled: Any, program: Any) -> None:
        """Put the hooks in: into the classes ``Kernel``, ``KernelCxx`` and ``Program``."""
        patches.hook(kernel, "__call__", self._make_call)
        patches.hook(compiled, "make_launch_context", self._make_found)
        if "_try_load_fastcache" in vars(kernel):
            patches.hook(kernel, "_try_load_fastcache", self._make_front_end)
        patches.hook(program, "compile_kernel", self._make_compile)
        if self.phases:
            patches.hook(program, "launch_kernel", self._make_submit)

    def builds(self, kernel: Any) -> int:
        """How many graphs the kernel's program has built before the launch."""
        try:
            return self.graphs.builds(kernel)
        except Exception as problem:
            self._guard(problem)
            return 0

    def first(self, state: ThreadState, kernel: Any) -> int:
        """Return the target of a launch whose specialization is launched for the first time, or was just compiled."""
        if state.compilation is not None:
            self._compiles.finish(state, kernel)
        number = id(state.kernel)
        # Quadrants 1.3 runs a kernel as plain Python, without a specialization, where its backend is Python.
        target = self._kernels.target(kernel, None if state.kernel is kernel else number, None)
        self.targets[number] = target
        return target

    def failed(self, state: ThreadState, kernel: Any, kwargs: dict[str, Any], start: float,
               error: BaseException) -> None:
        """Write a launch that raised, and the compile that did."""
        try:
            end = self.now()
            found = None if state.kernel is kernel else id(state.kernel)
            if state.compilation is not None:
                self._compiles.finish(state, kernel, error)
            target = self._kernels.target(kernel, found, type(error).__name__)
            dispatched, submitted, returned = (each if each >= start else -1.0 for each in (
                state.dispatch_end, state.submit_start, state.submit_end))
            state.write(start, dispatched, submitted, returned, end, target, self.configuration_of(kwargs))
        except Exception as problem:
            self.lost(problem)

    def lost(self, problem: Exception) -> None:
        """Count a launch that could not be written; raise what the user's signal handler raised in the middle of it."""
        self._guard(problem)
        self._sink.dropped[PROBE] += 1

    def configuration_of(self, kwargs: dict[str, Any]) -> int:
        """Return the id of the launch configuration, of which the stream is all that is visible."""
        stream = kwargs.get("qd_stream")
        return self.configuration if stream is None else self._sink.configuration(None, None, None, int(stream.handle))

    def _state(self) -> ThreadState | None:
        try:
            return self._sink.state()
        except Exception as problem:
            self._guard(problem)
            return None

    def _guard(self, problem: Exception) -> None:
        """Swallow what is our own; raise what the user's signal handler raised."""
        if from_signal_handler(problem):
            raise problem
        self._sink.swallow(PROBE, problem)

    def _make_call(self, original: Any) -> FunctionType:
        self.original_call = original
        hook = FunctionType(call.__code__, call.__globals__, "call")
        hook.__kwdefaults__ = {"_kernelscope": self}
        hook_codes.add(hook.__code__)
        return hook

    def _make_found(self, original: Any) -> Callable[..., Any]:
        states, now = self.states, self.now

        def make_launch_context(compiled: Any) -> Any:
            if self.enabled:
                try:
                    state = states[get_ident()]
                except KeyError:
                    state = self.new_state()
                # Asked again, it is for what Quadrants keeps of the launch.
                if state.kernel is not compiled:
                    state.kernel = compiled
                    if state.compilation is not None:
                        self._front_end_done(state, compiled)
                    state.dispatch_end = now()
            try:
                return original(compiled)
            except BaseException as error:
                hide_frame(error)
                raise

        hook_codes.add(make_launch_context.__code__)
        return make_launch_context

    def _front_end_done(self, state: ThreadState, compiled: Any) -> None:
        try:
            self._compiles.front_end_done(state)
            self._forget(id(compiled))
        except Exception as problem:
            self._guard(problem)

    def _forget(self, number: int) -> None:
        """The KernelCxx of that ``id`` is a new one, or is compiled anew."""
        self.targets.pop(number, None)
        self._kernels.forget(number)
        self.graphs.forget(number)

    def _make_submit(self, original: Any) -> Callable[..., Any]:
        states, now = self.states, self.now

        def launch_kernel(program: Any, data: Any, context: Any) -> Any:
            try:
                state = states[get_ident()] if self.enabled else None
            except KeyError:
                state = self.new_state()
            if state is not None:
                state.submit_start = now()
            try:
                result = original(program, data, context)
            except BaseException as error:
                hide_frame(error)
                raise
            if state is not None:
                state.submit_end = now()
            return result

        hook_codes.add(launch_kernel.__code__)
        return launch_kernel

    def _make_front_end(self, original: Any) -> Callable[..., Any]:
        def _try_load_fastcache(kernel: Any, args: Any, key: Any) -> Any:
            state = self._state() if self.enabled else None
            # A specialization that no launch asks for is told of when one does.
            if state is not None and state.kernel is kernel:
                state.compilation = Compile(key, self._sink.clock())
            try:
                return original(kernel, args, key)
            except BaseException as error:
                hide_frame(error)
                raise

        hook_codes.add(_try_load_fastcache.__code__)
        return _try_load_fastcache

    def _make_compile(self, original: Any) -> Callable[..., Any]:
        def compile_kernel(program: Any, *arguments: Any) -> Any:
            state = self._state() if self.enabled else None
            if state is not None and state.compilation is None:
                # The front end's part was done before, by a launch that failed or by another thread.
                state.compilation = Compile(None, self._sink.clock())
                self._forget(id(state.kernel))
            start = self._sink.clock()
            try:
                result = original(program, *arguments)
            except BaseException as error:
                hide_frame(error)
                raise
            if state is not None:
                try:
                    self._compiles.code_made(state, start, result)
                except Exception as problem:
                    self._guard(problem)
                state.dispatch_end = self.now()
            return result

        hook_codes.add(compile_kernel.__code__)
        return compile_kernel
