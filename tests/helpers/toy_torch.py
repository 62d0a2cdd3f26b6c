"""A stand-in for torch: the functions that the probe hooks, with what torch 2.11 gives them and expects of them."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

_SOURCES = {
    "torch": """
import contextlib
from types import SimpleNamespace

__version__ = "2.11.0+cu130"
_C = SimpleNamespace(DisableTorchFunctionSubclass=contextlib.nullcontext)


class Tensor:
    def __init__(self, *shape, dtype="torch.float32", device="cpu", strides=None, requires_grad=False):
        self.shape, self.dtype, self.requires_grad, self._strides = shape, dtype, requires_grad, strides
        self.layout = "torch.strided"
        self.device = SimpleNamespace(type=device)

    def is_contiguous(self):
        return self._strides is None

    def stride(self):
        return self._strides
""",
    "torch._guards": """
class CompileContext:
    current = None

    @staticmethod
    def current_compile_id():
        return CompileContext.current
""",
    "torch._dynamo": "",
    "torch._dynamo.utils": """
import collections
import time

counters = collections.defaultdict(collections.Counter)
graph_break_reasons = []


class ChromiumEventLogger:
    def log_event_end(self, event_name, time_ns, metadata, start_time_ns, log_pt2_compile_event, compile_id=None):
        self.ended = event_name


def stage(name, compile_id=None, nanoseconds=1000):
    now = time.time_ns()
    ChromiumEventLogger().log_event_end(name, now, {}, now - nanoseconds, False, compile_id)
""",
    "torch._dynamo.guards": """
reasons = []


def get_and_maybe_log_recompilation_reasons(cache_entry, frame, backend, skip_logging=False):
    return list(reasons)
""",
    "torch._dynamo.convert_frame": """
from types import SimpleNamespace
from torch._dynamo.guards import get_and_maybe_log_recompilation_reasons


def _compile(code, globals, locals, builtins, closure, compiler_fn, one_graph, *, compile_id, skip=0):
    get_and_maybe_log_recompilation_reasons(None, None, compiler_fn)
    parts = compiler_fn()
    manager = None if parts is None else SimpleNamespace(guard_manager=SimpleNamespace(code_parts=parts))
    return SimpleNamespace(guarded_code=manager)
""",
    "torch._inductor": "",
    "torch._inductor.codecache": """
class FxGraphCache:
    @staticmethod
    def _get_tmp_dir_for_key(key):
        return "/cache/fxgraph/" + key
""",
    "torch._inductor.output_code": """
class CompiledFxGraph:
    def __init__(self, source_code="", key=None):
        self.source_code, self._fx_graph_cache_key, self.device_types = source_code, key, ["cuda"]
        self.current_callable = None

    def post_compile(self, example_inputs, constants, graph_kwargs):
        self.done = True
""",
    "torch._inductor.cudagraph_utils": """
def log_cudagraph_skip_and_bump_counter(msg):
    return None
""",
    "torch._inductor.cudagraph_trees": """
import collections
import threading
from types import SimpleNamespace

local = threading.local()
local.tree_manager_containers = {}


class CUDAGraphTreeManager:
    def __init__(self, compile_id):
        self.compile_id, self.current_node = compile_id, None
        self.roots, self.ids_to_funcs = collections.defaultdict(list), {}
        local.tree_manager_containers[0] = SimpleNamespace(tree_manager=self)

    def record_function(self, new_inputs, function_id):
        def check_invariants(inputs):
            return "status", lambda: "static input data pointer changed.\\ninput name: primals_1. data"
        self.roots[function_id].append(SimpleNamespace(check_invariants=check_invariants))
        return new_inputs
""",
}


def install(monkeypatch: pytest.MonkeyPatch, **texts: str) -> Any:
    """Import the stand-in as torch; `texts` replace parts of its modules' sources: ``_dynamo__guards=...``."""
    sources = {**_SOURCES, **{f"torch.{name.replace('__', '.')}": text for name, text in texts.items()}}
    for name, source in sources.items():
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(source, f"<{name}>", "exec"), vars(module))
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
    return sys.modules["torch"]
