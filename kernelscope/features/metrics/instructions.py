"""How often each instruction of a kernel ran, and what it moved: CUPTI's SASS metrics, which patch the machine code."""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from kernelscope.counters.profiler import SASS_METRICS, Profiler
from kernelscope.features.metrics.sets import BY_INSTRUCTION
from kernelscope.probes.cupti.library import CuptiError

_OF_THE_GPU = 0  # one value for all multiprocessors


class _Config(ctypes.Structure):
    _fields_ = (("number", ctypes.c_uint64), ("granularity", ctypes.c_uint8))


class _Value(ctypes.Structure):
    _fields_ = (("number", ctypes.c_uint64), ("value", ctypes.c_uint64))


class _Instruction(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("private", ctypes.c_void_p), ("cubin", ctypes.c_uint32),
                ("function_number", ctypes.c_uint32), ("function", ctypes.c_char_p), ("offset", ctypes.c_uint32),
                ("values", ctypes.POINTER(_Value)))


class Executed(NamedTuple):
    """What one instruction did in one launch; `offset` is in bytes from the first of its function."""

    function: str
    offset: int
    values: dict[str, int]


class InstructionCounts(Profiler):
    """Counts what instructions do in one CUDA context, in a launch between `begin` and `take`.

    CUPTI lets a process choose the metrics of a device once: what is chosen first, those of all sets with it, is kept
    until the process ends, and costs nothing while nothing is counted.

    Parameters
    ----------
    path : str
        CUPTI's library.
    context : int
        The context's handle.
    device : int
        The ordinal of its device.
    metrics : sequence of str
        Such as ``smsp__sass_thread_inst_executed_pred_on``, without ``.sum``.

    Raises
    ------
    CuptiError
        CUPTI has no SASS metrics, or not these; or others were chosen in this process before.
    """

    NAME, CALLS, SINCE = "SASS metrics", tuple(SASS_METRICS), "12.4"
    _chosen: ClassVar[dict[int, dict[int, str]]] = {}

    def __init__(self, path: str, context: int, device: int, metrics: Sequence[str]) -> None:
        super().__init__(path, device)
        self._context = context
        chip = self._named_chip()
        held = self._chosen.get(device)
        if held is None:
            held = {self._number(chip, name): name for name in dict.fromkeys((*BY_INSTRUCTION, *metrics))}
            configs = (_Config * len(held))(*(_Config(number, _OF_THE_GPU) for number in held))
            self._call("cuptiSassMetricsSetConfig", count=len(held), configs=ctypes.addressof(configs), device=device)
            self._chosen[device] = held
            # Without this the process ends in a segmentation fault.
            atexit.register(self._call, "cuptiSassMetricsUnsetConfig", device=device)
        elif missing := [name for name in metrics if name not in held.values()]:
            raise CuptiError(f"CUPTI counts {', '.join(held.values())} in this process since the first measurement, "
                             f"and cannot change to {', '.join(missing)}", "restart the kernel and ask for these first")
        self._names = {number: name for number, name in held.items() if name in metrics}
        self._count = len(held)

    def begin(self) -> None:
        """Count in the launches from now on."""
        self._call("cuptiSassMetricsEnable", context=self._context, lazy=1)

    def take(self) -> list[Executed]:
        """Return what was counted since `begin`, once the kernels have ended."""
        found = self._call("cuptiSassMetricsGetDataProperties", context=self._context)
        values = (_Value * (found.records * found.instances * self._count))()
        step = found.instances * self._count * ctypes.sizeof(_Value)
        rows = (_Instruction * found.records)()
        for at, row in enumerate(rows):
            row.size = ctypes.sizeof(_Instruction)
            row.values = ctypes.cast(ctypes.addressof(values) + at * step, ctypes.POINTER(_Value))
        if found.records:
            self._call("cuptiSassMetricsFlushData", context=self._context, records=found.records,
                       instances=found.instances, data=ctypes.addressof(rows))
        return [Executed((row.function or b"").decode("utf-8", "replace"), row.offset, self._values_of(row, found))
                for row in rows]

    def end(self) -> None:
        """Count no more; launches run the kernels' own code again."""
        self._call("cuptiSassMetricsDisable", context=self._context)

    def _values_of(self, row: _Instruction, found: Any) -> dict[str, int]:
        values: dict[str, int] = {}
        for at in range(found.instances * self._count):
            name = self._names.get(row.values[at].number)
            if name is not None:
                values[name] = values.get(name, 0) + row.values[at].value
        return values

    def _number(self, chip: bytes, name: str) -> int:
        try:
            params = self._call("cuptiSassMetricsGetProperties", chip=chip, name=name.encode())
        except CuptiError as error:
            raise CuptiError(f"the metric {name} cannot be counted on {chip.decode()}: {error}",
                             "ncu --query-metrics lists those that there are") from None
        return int(params.number)


class _Saved(ctypes.Structure):
    _fields_ = (("size", ctypes.c_size_t), ("context", ctypes.c_void_p), ("left_on_device", ctypes.c_size_t),
                ("left_on_host", ctypes.c_size_t), ("overwrites", ctypes.c_uint8), ("optimizations", ctypes.c_uint8),
                ("private", ctypes.c_void_p))


class Checkpoints:
    """CUPTI's checkpoints: what a launch writes is undone.

    Parameters
    ----------
    path : str
        CUPTI's library; libcheckpoint lies beside it, or is found by the loader.

    Raises
    ------
    CuptiError
        There is no libcheckpoint.
    """

    def __init__(self, path: str) -> None:
        for each in (os.path.join(os.path.dirname(os.path.realpath(path)), "libcheckpoint.so"), "libcheckpoint.so"):
            try:
                self._library: Any = ctypes.CDLL(each)
                break
            except OSError:
                continue
        else:
            raise CuptiError(f"libcheckpoint, which restores memory, is not installed beside {path}",
                             "pip install 'kernelscope[cupti]'")

    @contextmanager
    def undone(self, context: int) -> Generator[None]:
        """Restore the memory of a context, as it was before, in the end; all kernels have to have ended by then."""
        saved = _Saved(ctypes.sizeof(_Saved), context)
        self._do("Save", saved)
        try:
            yield
        finally:
            try:
                self._do("Restore", saved)
            finally:
                self._do("Free", saved)

    def _do(self, what: str, saved: _Saved) -> None:
        result = getattr(self._library, f"cuptiCheckpoint{what}")(ctypes.byref(saved))
        if result:
            raise CuptiError(f"cuptiCheckpoint{what} failed: the GPU's memory cannot be restored (error {result})",
                             "free memory on the GPU or on the host" if what == "Save" else "restart the kernel")
