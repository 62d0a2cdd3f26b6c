"""The NVTX probe: ranges and marks that are made in Python with the package ``nvtx``, no tool being needed for it."""

from __future__ import annotations

import inspect
import statistics
import sys
import threading
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any

from kernelscope.clock import now
from kernelscope.errors import ProbeUnavailableError
from kernelscope.probes.base import ImportHook, Patches, from_signal_handler
from kernelscope.probes.nvtx import hooks
from kernelscope.probes.nvtx.domains import get_domain, hook_domains
from kernelscope.probes.sink import RANGE_EXIT, RANGE_MARK, RANGE_POP, RANGE_PUSH, Sink

_MAKES = ["message", "color", "domain", "category", "payload"]
_FIX = "pip install 'nvtx==0.2.17'"


class NvtxProbe:
    """Hooks nvtx where it is imported, or as soon as it is."""

    name = "nvtx"

    def __init__(self) -> None:
        self._import_hook: ImportHook | None = None
        self._patches = Patches()
        # Another thread imports nvtx while one uninstalls.
        self._lock = threading.RLock()
        self._installed = False

    def install(self, sink: Sink, detail: str) -> None:
        """Hook nvtx, or wait for its import. See `Probe.install`."""
        self._installed = True
        self._import_hook = ImportHook("nvtx", lambda module: self._imported(module, sink))
        self._import_hook.arm()

    def uninstall(self) -> None:
        """Undo every hook. See `Probe.uninstall`."""
        with self._lock:
            self._installed = False
            if self._import_hook is not None:
                self._import_hook.disarm()
            hooks.set_current(None)
            self._patches.undo()

    def synchronize(self) -> str | None:
        """Have nothing to wait for. See `Probe.synchronize`."""
        return None

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Have nothing to ask for. See `Probe.describe`."""

    def attach(self, kernel: Any) -> str | None:
        """Have nothing to attach to. See `Probe.attach`."""
        return None

    def cost_per_launch_ns(self, detail: str) -> float | None:
        """Cost a launch nothing: `measure_cost` is of a range. See `Probe.cost_per_launch_ns`."""
        return None

    def _imported(self, package: ModuleType, sink: Sink) -> None:
        """Hook nvtx, which has just been imported; what goes wrong is a fact for health, not for the user."""
        try:
            with self._lock:
                if self._installed:
                    self._hook(package, sink)
        except ProbeUnavailableError as problem:
            sink.health.append({"probe": self.name, "status": "unavailable", "message": str(problem), "fix": _FIX})
        except Exception as problem:
            hooks.set_current(None)
            self._patches.undo()
            if from_signal_handler(problem):
                raise
            sink.swallow(self.name, problem)

    def _hook(self, package: Any, sink: Sink) -> None:
        module = package.nvtx
        if not package.enabled():
            sink.health.append({"probe": self.name, "status": "unavailable", "fix": "unset NVTX_DISABLE",
                                "message": "NVTX_DISABLE is set: nvtx is switched off, and no range is recorded"})
            return
        problems = self_check(module)
        if problems:
            raise ProbeUnavailableError(f"this nvtx is unknown: {'; '.join(problems)}; no range is recorded")
        writer = hooks.RangeWriter(sink, self.name)
        writer.handle = sys.modules["nvtx._lib.lib"].DomainHandle()
        decorator = module.annotate.__call__.__code__  # before it is hooked
        hook_annotate(self._patches, module.annotate, writer)
        for name, make in (
            ("push_range", lambda original: hooks.push(writer, original, RANGE_PUSH)),
            ("mark", lambda original: hooks.push(writer, original, RANGE_MARK)),
            ("pop_range", lambda original: hooks.pop(writer, original)),
            ("start_range", lambda original: hooks.start(writer, original)),
            ("end_range", lambda original: hooks.end(writer, original)),
            ("get_domain", lambda original: get_domain(module, original)),
        ):
            self._patches.hook(module, name, make)
        for name, kind in (("libnvtx_push_range", RANGE_PUSH), ("libnvtx_pop_range", RANGE_POP)):
            self._patches.hook(module, name, lambda original, kind=kind: hooks.of_decorated(
                writer, original, decorator, kind))
        hook_domains(writer, self._patches, module)
        hooks.set_current(writer)


def hook_annotate(patches: Patches, annotate: Any, writer: hooks.RangeWriter) -> None:
    """Hook ``annotate`` as a context manager and as a decorator."""
    patches.hook(annotate, "__enter__", lambda original: hooks.bound(hooks.enter, writer, RANGE_PUSH, original))
    patches.hook(annotate, "__exit__", lambda original: hooks.bound(hooks.leave, writer, RANGE_EXIT, original))
    patches.hook(annotate, "__call__", lambda original: hooks.call(writer, original))


def self_check(module: Any) -> list[str]:
    """Compare the functions that the hooks rely on with what they should be; return what differs."""
    problems: list[str] = []
    for owner, path, name, wanted in (
        (module, "", "push_range", _MAKES),
        (module, "", "mark", _MAKES),
        (module, "", "start_range", _MAKES),
        (module, "", "pop_range", ["domain"]),
        (module, "", "end_range", ["range_id"]),
        (module, "", "get_domain", ["name"]),
        (module.annotate, "annotate.", "__init__", ["self", *_MAKES]),
        (module.annotate, "annotate.", "__enter__", ["self"]),
        (module.annotate, "annotate.", "__exit__", ["self", "exc_type", "exc_value", "traceback"]),
        (module.annotate, "annotate.", "__call__", ["self", "func"]),
    ):
        function = vars(owner).get(name)
        if not isinstance(function, FunctionType):
            problems.append(f"it has no function {path}{name}")
        elif function.__module__ == module.__name__ and list(inspect.signature(function).parameters) != wanted:
            problems.append(f"{path}{name} does not take ({', '.join(wanted)})")
    initializer = vars(module.annotate).get("__init__")
    if not problems and "init_args" not in inspect.unwrap(initializer).__code__.co_names:
        problems.append("annotate does not keep its init_args")
    needed = ("Domain", "DummyDomain", "dummy_domain", "libnvtx_push_range", "libnvtx_pop_range")
    return problems + [f"it has no {name}" for name in needed if not hasattr(module, name)]


def measure_cost(rounds: int = 20, ranges: int = 200) -> float:
    """Measure what the hooks add to one ``annotate`` block, in nanoseconds: the median of A B A B rounds."""
    sink = Sink()
    writer = hooks.RangeWriter(sink, NvtxProbe.name)
    block = _Block()
    differences: list[int] = []
    for _ in range(rounds):
        times: list[int] = []
        for recorded in (False, True):
            patches = Patches()
            if recorded:
                hook_annotate(patches, _Block, writer)
            try:
                start = now()
                for _ in range(ranges):
                    with block:
                        pass
                times.append(now() - start)
            finally:
                patches.undo()
        differences.append(times[1] - times[0])
        sink.ranges.clear()
    return max(0.0, statistics.median(differences) / ranges)


class _Block:
    """What `measure_cost` opens and closes: it does what ``annotate`` does without a tool."""

    init_args = ("block", "blue", "domain", None, None)
    domain = dummy = object()

    def __enter__(self) -> _Block:
        if self.domain is not self.dummy:
            raise RuntimeError("never")
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> bool:
        if self.domain is not self.dummy:
            raise RuntimeError("never")
        return False

    def __call__(self, func: Any) -> Any:
        return func
