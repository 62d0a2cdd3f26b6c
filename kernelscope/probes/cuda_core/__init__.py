"""The probe of CUDA graphs and of cuda.core: whoever makes a graph, the driver's own calls tell its life."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelscope import dryrun
from kernelscope.probes.base import Patches, Probe
from kernelscope.probes.cost import Trial
from kernelscope.probes.cuda_core.calls import NullCalls
from kernelscope.probes.cuda_core.compile import CompileHook
from kernelscope.probes.cuda_core.graphs import GraphWatch, Memory, UnseenGraphs
from kernelscope.probes.cuda_core.launch import FRAMEWORK, LaunchHook, trial
from kernelscope.probes.cuda_core.read import Driver
from kernelscope.probes.sink import LAUNCH, Sink

if TYPE_CHECKING:
    from kernelscope.probes.cuda_core.rows import RowMaker


class CudaCoreProbe(Probe):
    """Follows every graph of the process while a recording session lasts.

    Parameters
    ----------
    driver : Driver, optional
        The driver to ask instead of the process's own; for tests.
    memory : Memory, optional
        Instead of the process's own; for tests.
    """

    name = FRAMEWORK

    def __init__(self, driver: Driver | None = None, memory: Memory | None = None) -> None:
        super().__init__()
        self._driver = driver
        self._memory = _memory if memory is None else memory
        self._watch: GraphWatch | None = None
        self._rows: RowMaker | None = None
        self._null: NullCalls | None = None
        self._launches: LaunchHook | None = None
        self._compiles: CompileHook | None = None
        self._unseen = UnseenGraphs()
        self._process = os.getpid()

    @property
    def is_hooked(self) -> bool:
        """Whether anything was launched through the hook; at a launch of a graph nothing of the probe runs."""
        return self._launches is not None and self._launches.has_launched

    def hook(self, module: Any, sink: Sink) -> None:
        """Hook ``cuda.core.launch`` and the compiles of programs. See `Probe.hook`."""
        if self._launches is None:
            self._compiles = CompileHook(sink)
            self._launches = LaunchHook(sink, self._compiles.compiled)
            self._launches.install(module)
            problem = self._compiles.install(self.patches)
            if problem is not None:
                version = getattr(module, "__version__", "of an unknown version")
                self.report(sink, f"compiles of cuda.core {version} are not recorded: {problem}",
                            fix="pip install 'cuda-core>=1.2.2'")

    def unhook(self) -> None:
        """Undo the hooks. See `Probe.unhook`."""
        if self._compiles is not None:
            self._compiles.end()
        super().unhook()
        if self._launches is not None:
            self._launches.uninstall()

    def trial(self, sink: Sink, patches: Patches) -> Trial:
        """Return two launches that do nothing. See `Probe.trial`."""
        return trial(sink)

    def install(self, sink: Sink, detail: str) -> None:
        """Hook ``cuda.core.launch``, and listen to the driver's calls of graphs. See `ProbeProtocol.install`."""
        super().install(sink, detail)
        driver = self._driver or _found()
        if driver is None:
            return  # no driver, no graphs
        self.is_idle = False
        self._watch = watch = GraphWatch(sink, driver, self._memory.captures)
        sink.driver_calls.is_capturing = lambda: bool(watch.captures_under_way() | watch.earlier.left)
        self._rows = None
        sink.driver_calls.listen(self._watch)
        if sink.driver_calls.source is None and dryrun.is_enabled():
            self._null = NullCalls(ctypes.CDLL("libcuda.so.1"), sink.driver_calls)
            self._null.begin()
            sink.is_capturing = self._is_capturing
        if sink.driver_calls.source is None:
            self._unseen.begin()

    def uninstall(self) -> None:
        """Undo the hook and listen no more; what is still to be read of graphs is read now.

        See `ProbeProtocol.uninstall`.
        """
        super().uninstall()
        self._unseen.end()
        if self.sink is None or self._watch is None:
            return
        if os.getpid() == self._process:  # in a child of fork() there is no driver
            self._memory.captures = self._watch.captures_under_way()
            self.sink.driver_calls.is_capturing = lambda: False  # it hears of no end from now on
            self.sink.driver_calls.leave(self._watch)
        if self._null is not None:
            self._null.end()

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Make rows of what was seen of graphs, and ask for kernels' registers and occupancy.

        See `ProbeProtocol.describe`.
        """
        if self._launches is not None:
            self._launches.describe(used)
        watch = self._watch
        if watch is None or os.getpid() != self._process:
            return
        from kernelscope.probes.cuda_core.rows import RowMaker

        rows = self._rows = self._rows or RowMaker(sink, self._memory)
        with watch.lock:
            if sink.driver_calls.heard is not None:
                watch.settle()  # a recorder inside another one stops; else it was done when the watch ended
            found = np.unique(sink.gpu.activities["cupti_graph_id"])
            for number in [int(number) for number in found if number > 0]:
                watch.executable_of(number)
            launches = self._null.take_launches() if self._null is not None else None
            if launches is not None:
                known = {int(each): watch.executable_of(int(each)) for each in np.unique(launches["exec"])}
                rows.finish(watch.events)
                places = {number: rows.launched(executable) for number, executable in known.items()}
                columns = {name: launches[name].astype(np.int64) for name in LAUNCH}
                columns["exec"] = np.array([places[int(number)] for number in launches["exec"]], np.int64)
                columns["ident"] = columns["ident"] & 0xFFFFFFFF
                before = sink.graphs.launches
                sink.graphs.launches = {name: np.concatenate([before[name], columns[name]]) for name in LAUNCH}
            else:
                rows.finish(watch.events)
        self._state(sink, watch, rows)

    def _is_capturing(self) -> bool:
        return self._null is not None and self._null.is_capturing()

    def _state(self, sink: Sink, watch: GraphWatch, rows: RowMaker) -> None:
        """Say in health what is not known of graphs, where there were any."""
        problems = list(dict.fromkeys(watch.problems)) if watch.events or watch.was_strange else []
        if rows.left_out:
            which = "graph that an update made is" if rows.left_out == 1 else "graphs that updates made are"
            problems.append(f"{rows.left_out:,} {which} without nodes: there were too many")
        fix = "please report it with this message and the driver's version"
        if not watch.was_told and self._unseen.count:
            problems = ["graphs are not seen: that needs CUPTI, which does not record here"]
            fix = "record with gpu='cupti', and pip install 'kernelscope[cupti]'"
        if problems:
            sink.stated[self.name] = {"probe": self.name, "status": "degraded", "message": "; ".join(problems),
                                      "fix": fix}


def _found() -> Driver | None:
    """The process's driver; in the simulator there is none."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        return None
    try:
        return Driver()
    except OSError:
        return None


_memory = Memory()
