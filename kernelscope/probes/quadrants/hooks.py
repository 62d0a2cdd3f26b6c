"""What Quadrants' functions do while they are recorded.

``Kernel.__call__`` begins and ends a launch. ``KernelCxx.make_launch_context``, which is what it asks of the
specialization that it has found, ends its dispatch. ``Program.launch_kernel`` is the call of Quadrants' runtime, which
launches one CUDA kernel for each top-level loop, or one graph. ``Kernel._try_load_fastcache`` is what
``Kernel.materialize`` does first where a specialization is missing, before the front end makes it;
``Program.compile_kernel`` makes the machine code or finds it in a cache. Neither of these two is on the path of a
launch whose specialization is there.

`call` is a template, as in ``numba_cuda.hot``: Quadrants' own method runs its code, with `Hooks` as a keyword's
default. It takes any arguments, which nothing here looks at or keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from types import FunctionType
from typing import Any

from kernelscope.probes.base import Patches, from_signal_handler, hide_frame, hook_codes
from kernelscope.probes.launch_log import ThreadState, packing
from kernelscope.probes.quadrants.compiles import Compile, Compiles
from kernelscope.probes.quadrants.facts import Facts
from kernelscope.probes.quadrants.graphs import GraphLog
from kernelscope.probes.sink import Sink

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
        offset = state.offset
        if offset == hooks.room:
            state.write(start, state.dispatch_end, state.submit_start, state.submit_end, end, target, configuration)
        else:
            # Nothing is called from here to `write` but it: a signal handler that launches comes before or after.
            state.offset = offset + hooks.size
            if hooks.phases:
                hooks.write(state.buffer, offset, start, state.dispatch_end, state.submit_start, state.submit_end, end,
                            target, configuration)
            else:
                hooks.write(state.buffer, offset, start, end, target, configuration)
    except Exception as problem:
        state.kernel = outer
        hooks.lost(problem)
        return result
    state.kernel = outer
    return result


def call_written(self: Any, *py_args: Any, _kernelscope: Any = None, **kwargs: Any) -> Any:
    """As `call`, for states that only their own `write` can write to."""
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
    facts : Facts
        Makes the rows of kernels and specializations.
    """

    __slots__ = ("_compiles", "_facts", "_sink", "configuration", "enabled", "graphs", "ident", "new_state", "now",
                 "original_call", "packs", "phases", "room", "size", "states", "targets", "write")

    def __init__(self, sink: Sink, facts: Facts) -> None:
        self._sink = sink
        self._facts = facts
        self._compiles = Compiles(sink, facts)
        self.graphs = GraphLog(sink, facts)
        self.enabled = True
        self.states, self.ident, self.new_state = sink.states, get_ident, sink.state
        self.now = sink.seconds
        self.phases = sink.detail == "phases"
        self.packs = sink.log.backend == "python"
        if self.packs:
            self.write, self.size, self.room = packing(sink.log)
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
        target = self._facts.target(kernel, None if state.kernel is kernel else number, None)
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
            target = self._facts.target(kernel, found, type(error).__name__)
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
        template = call if self.packs else call_written
        hook = FunctionType(template.__code__, template.__globals__, "call")
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
        self._facts.forget(number)
        self.graphs.forget(number)

    def _make_submit(self, original: Any) -> Callable[..., Any]:
        states, now = self.states, self.now

        def launch_kernel(program: Any, data: Any, context: Any) -> Any:
            if not self.enabled:
                try:
                    return original(program, data, context)
                except BaseException as error:
                    hide_frame(error)
                    raise
            try:
                state = states[get_ident()]
            except KeyError:
                state = self.new_state()
            state.submit_start = now()
            try:
                result = original(program, data, context)
            except BaseException as error:
                hide_frame(error)
                raise
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
            if state is None:
                try:
                    return original(program, *arguments)
                except BaseException as error:
                    hide_frame(error)
                    raise
            if state.compilation is None:
                # The front end's part was done before, by a launch that failed or by another thread.
                state.compilation = Compile(None, self._sink.clock())
                self._forget(id(state.kernel))
            start = self._sink.clock()
            try:
                result = original(program, *arguments)
            except BaseException as error:
                hide_frame(error)
                raise
            try:
                self._compiles.code_made(state, start, result)
            except Exception as problem:
                self._guard(problem)
            state.dispatch_end = self.now()
            return result

        hook_codes.add(compile_kernel.__code__)
        return compile_kernel
