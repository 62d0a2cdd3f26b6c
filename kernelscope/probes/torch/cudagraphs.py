"""Hooks on torch's CUDA graph trees: what was recorded, recorded again, or not run as a CUDA graph, and why."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kernelscope.probes.sink import Sink
from kernelscope.probes.torch.compile import CompileHooks

_MOST_EVENTS, _MOST_TEXT = 50, 400


class CudaGraphHooks:
    """Notes recordings and skips with the compile that they belong to.

    A replay runs no hook: ``CUDAGraphTreeManager.record_function`` is called only where no recorded graph fits.

    Parameters
    ----------
    sink : Sink
        Whose clock is read.
    compiles : CompileHooks
        Knows the compiles.
    """

    def __init__(self, sink: Sink, compiles: CompileHooks) -> None:
        self._sink = sink
        self._compiles = compiles
        #: By the identity of what was recorded, the functions that it was recorded as, of other sizes each.
        self._recorded: dict[tuple[str, int], set[Any]] = {}

    def make_record(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the hook on ``CUDAGraphTreeManager.record_function``."""

        def record_function(manager: Any, new_inputs: Any, function_id: Any) -> Any:
            if not self._compiles.enabled:
                return original(manager, new_inputs, function_id)
            why = self._asked(lambda: self._why(manager, new_inputs, function_id))
            start = self._sink.clock()
            try:
                return original(manager, new_inputs, function_id)
            finally:
                took = self._sink.clock() - start
                self._asked(lambda: self._note(str(manager.compile_id), {
                    "event": "record" if why is None else "record again", "reason": why, "duration_ns": took}))

        return record_function

    def make_skip(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return the hook on ``log_cudagraph_skip_and_bump_counter``."""

        def log_cudagraph_skip_and_bump_counter(msg: Any) -> Any:
            if self._compiles.enabled:
                self._asked(lambda: self._skipped(str(msg)))
            return original(msg)

        return log_cudagraph_skip_and_bump_counter

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except Exception as problem:
            self._compiles.guard(problem)
            return None

    def _why(self, manager: Any, inputs: Any, function_id: Any) -> str | None:
        """Why a graph that was recorded does not fit; None for the first recording."""
        nodes = manager.roots if manager.current_node is None else manager.current_node.children
        reasons: list[str] = []
        for node in nodes.get(function_id, ()):
            status, tell = node.check_invariants(inputs)
            reasons.append(str(tell() if callable(tell) else status))
        model = str(manager.compile_id), id(manager.ids_to_funcs[function_id].model)
        known = self._recorded.setdefault(model, set())
        is_new, had_others = function_id not in known, bool(known)
        known.add(function_id)
        if reasons:
            return reasons[-1][:_MOST_TEXT]
        if is_new:
            return "other sizes of a dynamic shape" if had_others else None
        return "it was recorded after other graphs than now"

    def _skipped(self, message: str) -> None:
        event = {"event": "skip", "reason": message[:_MOST_TEXT]}
        if self._compiles.note_skip(event):
            return
        compile_id = sys.modules["torch._guards"].CompileContext.current_compile_id()  # of a backward pass
        trees = sys.modules.get("torch._inductor.cudagraph_trees")
        if compile_id is None and trees is not None:  # it was found out when the function ran
            containers = getattr(trees.local, "tree_manager_containers", {})
            managers = [each.tree_manager for each in containers.values() if each.tree_manager is not None]
            compile_id = managers[-1].compile_id if managers else None
        self._note(str(compile_id), event)

    def _note(self, compile_id: str, event: dict[str, Any]) -> None:
        later = self._compiles.later(compile_id)
        if later is not None:
            events = later.setdefault("cuda_graphs", [])
            if len(events) < _MOST_EVENTS:
                events.append({name: value for name, value in event.items() if value is not None})
