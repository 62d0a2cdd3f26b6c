"""The CUPTI probe: what the GPU did, and the driver calls that asked for it."""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

from kernelscope import dryrun
from kernelscope.probes.base import ImportHook, Probe
from kernelscope.probes.cupti import kineto, xla
from kernelscope.probes.cupti.kineto import Kineto, TorchProfilerWatch
from kernelscope.probes.cupti.library import Cupti, CuptiError, NvtxInjection, find, nsight
from kernelscope.probes.cupti.tracing import Tracing
from kernelscope.probes.cupti.xla import XlaProfilerWatch
from kernelscope.probes.driver import device
from kernelscope.probes.sink import GpuColumns, Sink
from kernelscope.registry import frameworks
from kernelscope.units import counted, duration

#: Whoever imports one of these may start CUDA. CUPTI must be there before the first launch, and not without need.
_STARTERS = ("cuda.bindings.driver", "torch", "triton",
             *(framework.module for framework in frameworks() if framework.module))
#: Why the device was not synchronized.
CAPTURING = "a stream is capturing a graph: synchronizing would break the capture"


class CuptiProbe(Probe):
    """Has CUPTI record while a recording session lasts; its share of a launch's cost is in its own code, and not known.

    Parameters
    ----------
    cupti : Cupti, optional
        The library to use instead of the one that is found; for tests.
    """

    name = "cupti"

    def __init__(self, cupti: Cupti | None = None) -> None:
        super().__init__()
        self._given = cupti
        self._tracing: Tracing | None = None
        self._kineto: Kineto | None = None
        self._is_on = False
        self._torch_profiles = False
        self._imports: list[ImportHook] = []
        self._xla_since: int | None = None
        self._xla_ns = 0
        self._watch = TorchProfilerWatch(self._stand_aside, self._take_up)
        self._xla_watch = XlaProfilerWatch(self._leave_to_xla, self._return_from_xla)
        self._injection = NvtxInjection()
        self._process = os.getpid()

    def install(self, sink: Sink, detail: str) -> None:
        """Have CUPTI record, at once or when something is imported that can start CUDA. See `ProbeProtocol.install`."""
        self.sink = sink
        atexit.register(self._leave)  # now: a process that records itself registers its end later, which comes first
        if self._given is not None or any(module in sys.modules for module in _STARTERS):
            self._begin()
            return
        self._imports = [ImportHook(module, self._may_start) for module in _STARTERS]
        for hook in self._imports:
            hook.arm()

    def uninstall(self) -> None:
        """Have CUPTI stop, and take what it still holds. See `ProbeProtocol.uninstall`."""
        with self.lock:
            for hook in self._imports:
                hook.disarm()
            self._imports = []
            atexit.unregister(self._leave)
            self._end()

    def synchronize(self) -> str | None:
        """Wait for the current context, which may be one that no other probe knows. See `ProbeProtocol.synchronize`."""
        if not self._is_on or self._given is not None or not self._is_here():
            return None
        return CAPTURING if self._is_capturing() else _synchronize_current()

    def describe(self, sink: Sink, used: Iterable[tuple[int, int]]) -> None:
        """Read what CUPTI recorded. See `ProbeProtocol.describe`."""
        columns = self._columns()
        if columns is None:
            return
        with self.lock:
            if self._is_on and self._is_here() and self._xla_since is None:
                try:
                    self._collect()
                except Exception as problem:  # what was read before stays
                    sink.swallow(self.name, problem)
        sink.gpu = columns
        if self._tracing is not None and self._tracing.log.has_lines:
            sink.gpu.sites = self._tracing.log.sites()
        if self._given is None and self._is_here():
            for ordinal in np.unique(sink.gpu.activities["device"]).tolist():
                if ordinal >= 0:
                    device(sink, ordinal)  # a framework's probe need not know devices
        error_ns = max(each.clock_error_ns for each in (self._tracing, self._kineto) if each is not None)
        sink.metadata["gpu"] = {"source": "cupti", "clock_error_ns": error_ns}
        sink.stated[self.name] = _of_kineto(error_ns) if self._tracing is None or self._kineto is not None else _stated(
            self._tracing)

    def _columns(self) -> GpuColumns | None:
        """What was recorded, by CUPTI itself or through Kineto."""
        source = self._tracing or self._kineto
        return None if source is None else source.columns

    def _collect(self) -> None:
        """Read what was recorded so far, and go on."""
        if self._kineto is None:
            assert self._tracing is not None
            self._tracing.collect()
        elif self._kineto.is_on:
            self._kineto.end()
            self._kineto.begin()

    def _is_capturing(self) -> bool:
        if not self._is_on or self.sink is None:
            return False
        if self._kineto is not None and kineto.is_capturing():
            return True
        captures = 0 if self._tracing is None else self._tracing.captures.under_way
        return captures > 0 or self.sink.driver_calls.is_capturing()

    def _may_start(self, module: ModuleType) -> None:
        with self.lock:
            if self._imports and not self._is_on and self.sink is not None:
                try:
                    self._begin()
                except Exception as problem:
                    self.sink.swallow(self.name, problem)

    def _begin(self) -> None:
        assert self.sink is not None
        try:
            if xla.is_running():
                self._xla_since = self.sink.clock()
            else:
                self._trace()
        except CuptiError as problem:
            if not (problem.is_held and kineto.is_available()) or nsight():
                self.report(self.sink, str(problem), status="unavailable", fix=problem.fix)
                return
            self._torch_profiles = kineto.is_running()
            self._kineto = Kineto(GpuColumns(), self.sink.clock)
            if not self._torch_profiles:
                self._kineto.begin()
        self._is_on = True
        self.sink.is_capturing = self._is_capturing
        self._watch.begin()
        self._xla_watch.begin()
        tool = nsight()
        if tool is not None:
            self.report(self.sink, f"{tool} has started this process, and may run kernels one by one or again: GPU "
                        "times are not those of a run without it", fix=f"record without {tool}")

    def _trace(self) -> None:
        """Have CUPTI record, from now on or again; raises `CuptiError`."""
        assert self.sink is not None
        if self._tracing is not None:
            self._tracing.resume()
            return
        cupti = self._given or _loaded()
        self._tracing = Tracing(cupti, self.sink.log.ring, self.sink.clock, self.sink.driver_calls,
                                None if self.sink.user_code is None else self.sink)
        self._injection.offer(cupti.path)

    def _end(self) -> None:
        """Have CUPTI stop; a child of fork() has nothing of it, and must not touch it."""
        with self.lock:
            if not self._is_on:
                return
            self._watch.end()
            self._xla_watch.end()
            self._injection.withdraw()
            try:
                self._end_source()
                self._state_xla()
                if self._kineto is not None:
                    self._kineto.close()
                self._watch.catch_up()
            except Exception:
                self._is_on = False
                raise
            self._is_on = False  # not after a Ctrl-C: uninstalling is then taken up again

    def _end_source(self) -> None:
        """End what records now."""
        if self._kineto is None:
            if self._tracing is not None:
                self._tracing.end() if self._is_here() else self._tracing.forget()
        elif self._is_here():
            self._kineto.end()
            if self._torch_profiles and self.sink is not None:
                self.report(self.sink, "torch.profiler still ran when this recording ended: what the GPU did since it "
                            "started is in torch.profiler's result only",
                            fix="record around torch.profiler, not inside")

    def _leave(self) -> None:
        """Have CUPTI stop because the interpreter ends: too late to import or to convert anything."""
        with self.lock:
            source = self._kineto or self._tracing
            if self._is_on and self._is_here() and source is not None:
                if self._given is None and not self._is_capturing():
                    _synchronize_current()  # CUPTI gives back only buffers of work that has ended
                self._is_on = False
                source.leave()

    def _is_here(self) -> bool:
        """Whether this is the process that CUPTI records, and no child that was forked from it."""
        return os.getpid() == self._process

    def _stand_aside(self) -> None:
        """Leave CUPTI to torch's profiler, which is about to start."""
        assert self.sink is not None
        try:
            with self.lock:
                if not self._is_on or not self._is_here() or self._torch_profiles:
                    return
                if self._given is None and not self._is_capturing():
                    _synchronize_current()
                self._injection.withdraw()
                self._end_source()
                if self._kineto is None and self._tracing is not None:
                    self._kineto = Kineto(self._tracing.columns, self.sink.clock)
                self._torch_profiles = True
        except Exception as problem:
            self.sink.swallow(self.name, problem)

    def _take_up(self, result: Any) -> None:
        """Read what torch's profiler has recorded, which has just stopped, and record on through Kineto."""
        assert self.sink is not None
        try:
            with self.lock:
                if not self._is_on or not self._is_here() or not self._torch_profiles or self._kineto is None:
                    return
                self._torch_profiles = False
                if result is not None:
                    self._kineto.add_result(result)
                self._kineto.begin()
        except Exception as problem:
            self.sink.swallow(self.name, problem)

    def _leave_to_xla(self) -> None:
        """Leave CUPTI to JAX's profiler, which is about to start."""
        assert self.sink is not None
        try:
            with self.lock:
                if not self._is_on or not self._is_here() or self._torch_profiles or self._xla_since is not None:
                    return
                if self._given is None and not self._is_capturing():
                    _synchronize_current()
                self._xla_since = self.sink.clock()
                self._end_source()
        except Exception as problem:
            self.sink.swallow(self.name, problem)

    def _return_from_xla(self) -> None:
        """Record on, as JAX's profiler has stopped."""
        assert self.sink is not None
        try:
            with self.lock:
                if not self._is_on or not self._is_here() or self._xla_since is None:
                    return
                self._xla_ns += self.sink.clock() - self._xla_since
                self._xla_since = None
                self._trace() if self._kineto is None else self._kineto.begin()
        except CuptiError as problem:
            self.report(self.sink, f"after JAX's profiler: {problem}", fix=problem.fix)
        except Exception as problem:
            self.sink.swallow(self.name, problem)

    def _state_xla(self) -> None:
        """Say for how long JAX's profiler had CUPTI."""
        if self.sink is None:
            return
        if self._xla_since is not None:
            self._xla_ns += self.sink.clock() - self._xla_since
            self._xla_since = None
        if self._xla_ns:
            self.report(self.sink, f"JAX's profiler ran for {duration(self._xla_ns)} of this recording: what the GPU "
                        "did meanwhile is in its trace only", fix="profile before or after the recording")
            self._xla_ns = 0


def _of_kineto(error_ns: float) -> dict[str, Any]:
    """The row of health where torch's profiler has CUPTI."""
    return {"probe": CuptiProbe.name, "status": "degraded", "clock_error_ns": error_ns,
            "message": "torch.profiler has CUPTI in this process: the GPU's side comes through it, without lines, "
                       "graph nodes and some of the driver's calls",
            "fix": "restart the kernel, and record before torch.profiler runs"}


def _stated(tracing: Tracing) -> dict[str, Any]:
    """The row of health that says how well it went."""
    row: dict[str, Any] = {"probe": CuptiProbe.name, "status": "ok", "clock_error_ns": tracing.clock_error_ns,
                           "dropped": tracing.dropped,
                           "message": f"GPU times are on the host clock within {tracing.clock_error_ns / 1e3:.1f} µs; "
                                      "what CUPTI itself adds to a launch is not in the stated cost"}
    if tracing.log.unanswered:
        calls = counted(tracing.log.unanswered, "call")
        row["message"] += f"; {calls} of the driver without a line, as Python was busy when their code was new"
    if tracing.dropped:
        records = "record" if tracing.dropped == 1 else "records"
        row |= {"status": "degraded", "message": f"CUPTI lost {tracing.dropped:,} {records}",
                "fix": "record fewer launches in one cell"}
    if tracing.problem:
        row |= {"status": "degraded", "message": f"some of CUPTI's records could not be read: {tracing.problem}",
                "fix": "please report it with this message and CUPTI's version"}
    if tracing.clock_jump_ns:
        row |= {"status": "degraded", "fix": "record again",
                "message": f"the system's clock was set meanwhile, by {tracing.clock_jump_ns / 1e6:.3f} ms: "
                           "GPU times before and after do not fit together"}
    return row


def _loaded() -> Cupti:
    """CUPTI, loaded once a process: another copy that somebody loads later has no part in our records."""
    if not _libraries:
        with _loading:
            if not _libraries:
                path = find()
                _libraries[path] = os.getpid(), Cupti(path)
    ((process, cupti),) = _libraries.values()
    if process != os.getpid():
        raise CuptiError("this process was forked from one that used CUPTI: what the GPU does is not recorded here",
                         "start the process anew (multiprocessing's 'spawn'), which CUDA needs too")
    return cupti


_libraries: dict[str, tuple[int, Cupti]] = {}
_loading = threading.Lock()


def has_driver() -> bool:
    """Whether there is a CUDA driver, and so something to record: not in a dry run, nor in the simulator."""
    if dryrun.is_enabled() or os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        return False
    return _driver() is not None


def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _synchronize_current() -> str | None:
    """Wait for the calling thread's current context, if it has one."""
    driver = _driver()
    context = ctypes.c_void_p()
    if driver is None or driver.cuCtxGetCurrent(ctypes.byref(context)) or not context:
        return None
    result = driver.cuCtxSynchronize()
    if not result:
        return None
    text = ctypes.c_char_p()
    driver.cuGetErrorName(result, ctypes.byref(text))
    return (text.value or b"error").decode()
