"""CUPTI's PC sampling through ctypes: at which instructions the warps of kernels are, and why they wait.

The GPU itself samples its warps every so many cycles. CUPTI's own threads decode what it writes and add the samples up
by instruction and stall reason; this module takes the sums.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from kernelscope.counters.permission import refusal
from kernelscope.probes.cupti.library import CuptiError
from kernelscope.probes.sink import Places

# CUPTI's structures, with pointers as numbers, so that NumPy can read them.

class _StallReason(ctypes.Structure):
    _fields_ = (("index", ctypes.c_uint32), ("samples", ctypes.c_uint32))


class _PcData(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("cubin_crc", ctypes.c_uint64), ("pc_offset", ctypes.c_uint64),
        ("function_index", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("name", ctypes.c_size_t),
        ("reason_count", ctypes.c_size_t), ("reasons", ctypes.c_size_t),
        ("correlation_id", ctypes.c_uint32),
    )


class _Data(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_size_t), ("room", ctypes.c_size_t), ("total_samples", ctypes.c_uint64),
        ("dropped_samples", ctypes.c_uint64), ("pcs", ctypes.c_size_t), ("remaining_pcs", ctypes.c_size_t),
        ("range_id", ctypes.c_uint64), ("data", ctypes.c_size_t), ("other_samples", ctypes.c_uint64),
        ("is_hardware_buffer_full", ctypes.c_uint8),
    )


class _Value(ctypes.Union):
    _fields_ = (("number", ctypes.c_uint32), ("size", ctypes.c_size_t), ("words", ctypes.c_uint64 * 3))


class _Setting(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int), ("status", ctypes.c_int), ("value", _Value))


class _Params(ctypes.Structure):
    """The parameters of every call: its size, what CUPTI keeps, the context, and up to three of the call's own."""

    _fields_ = (("size", ctypes.c_size_t), ("private", ctypes.c_void_p), ("context", ctypes.c_void_p),
                ("values", ctypes.c_void_p * 3))


# CUpti_PCSamplingConfigurationAttributeType.
_PERIOD, _REASONS, _MODE, _START_STOP, _BUFFER = 1, 2, 5, 6, 8
_CONTINUOUS, _SERIALIZED = 1, 2
#: What a call's parameters have before its own.
_HEAD = 24
_MOST_NAME = 128
#: Instructions that are taken at once, and for how many CUPTI has room until sampling ends.
_ROOM, MOST = 8192, 65_536
#: What asking for samples returns where the hardware's buffer is full.
_OUT_OF_MEMORY = 8
#: What CUPTI has for 2 to the power of so many cycles between samples.
PERIODS = range(5, 32)
_PREFIX = re.compile(r"^smsp__pcsamp_(?:warps_issue_stalled_)?")
_NOT_ISSUED = "_not_issued"


class Samples(NamedTuple):
    """The samples of one instruction with one stall reason.

    Attributes
    ----------
    entry_name : str
        The mangled name of the kernel.
    pc_offset : int
        Bytes from the kernel's first instruction.
    correlation_id : int
        CUPTI's, of the kernel's launch; 0 where kernels do not run one by one.
    reason : str
        The stall reason.
    samples, not_issued : int
        How many, and how many of them in cycles in which the scheduler issued nothing.
    """

    entry_name: str
    pc_offset: int
    correlation_id: int
    reason: str
    samples: int
    not_issued: int


class PcSampling:
    """Samples the kernels of one CUDA context, from `begin` until `end`.

    Parameters
    ----------
    path : str
        CUPTI's library.
    context : int
        The context's handle.
    is_serialized : bool
        Run kernels one by one, so that each sample has its launch.
    period : int, optional
        A sample every 2 to the power of so many cycles, of `PERIODS`; CUPTI chooses without.

    Attributes
    ----------
    total, dropped : int
        Samples that were taken, and those that the hardware lost.
    of_others : int
        Samples of kernels that CUPTI tells nothing of, such as the driver's own.
    is_buffer_full : bool
        Whether the buffer of the hardware was full once.
    left : int
        Instructions whose samples CUPTI had no room for.
    period : int or None
        As given, or CUPTI's choice once it is known.

    Raises
    ------
    CuptiError
        The library cannot be loaded, or knows no PC sampling.
    """

    def __init__(self, path: str, context: int, *, is_serialized: bool = False, period: int | None = None) -> None:
        try:
            self._library: Any = ctypes.CDLL(path)
            self._call = self._library.cuptiPCSamplingEnable and self._called
        except (OSError, AttributeError) as error:
            raise CuptiError(f"{path} has no PC sampling: {error}", "pip install 'kernelscope[cupti]'") from None
        self.context = context
        self.is_serialized = is_serialized
        self.period = period
        self.total = self.dropped = self.of_others = 0
        self.is_buffer_full = False
        self.left = 0
        self._names: dict[int, str] = {}
        self._counts: Counter[tuple[int, ...]] = Counter()
        self._entries: list[str] = []
        self._places = Places(self._entries)
        self._indices: Any = None
        self._buffers: list[_Buffer] = []
        self._is_on = False

    def begin(self) -> None:
        """Sample from now on.

        Raises
        ------
        CuptiError
            CUPTI refuses: another tool samples, or only an administrator may. Nothing is on then.
        """
        self._call("Enable")
        self._is_on = True
        try:
            self._names = self._read_names()
            # What CUPTI fills when it is disabled, and what `collect` asks it to fill.
            self._buffers = [_Buffer(room, len(self._names)) for room in (MOST, _ROOM)]
            indices = self._indices = (ctypes.c_uint32 * len(self._names))(*self._names)
            settings = [_setting(_MODE, _SERIALIZED if self.is_serialized else _CONTINUOUS),
                        _setting(_REASONS, len(indices), ctypes.addressof(indices)),
                        _setting(_BUFFER, ctypes.addressof(self._buffers[0].data)),
                        _setting(_START_STOP, 1)]
            if self.period is not None:
                settings.append(_setting(_PERIOD, self.period))
            self._configure("Set", settings)
            if self.period is None:
                self.period = self._read_period()
            self._call("Start")
        except BaseException:
            self.end(is_started=False)
            raise

    def collect(self) -> None:
        """Take what CUPTI has decoded so far."""
        while self._is_on:
            result = self._call("GetData", ctypes.addressof(self._buffers[1].data), ignored=_OUT_OF_MEMORY)
            self.is_buffer_full |= result == _OUT_OF_MEMORY
            if not self._take(self._buffers[1]):
                break

    def end(self, *, is_started: bool = True) -> None:
        """Sample no more, and take the rest; what a Ctrl-C interrupts, the next call takes up."""
        if not self._is_on:
            return
        try:
            if is_started:
                self._call("Stop")
                self.collect()
        finally:
            self._call("Disable")
            self._is_on = False
        if is_started:
            self.left += self._take(self._buffers[0])
        self._buffers = []

    def context_id(self) -> int | None:
        """Return CUPTI's id of the context, which the records of its kernels have; None where it does not tell."""
        found = ctypes.c_uint32()
        function = getattr(self._library, "cuptiGetContextId", None)
        return None if function is None or function(ctypes.c_void_p(self.context), ctypes.byref(found)) else found.value

    def taken(self) -> list[Samples]:
        """Return the samples that were taken since this was asked last."""
        counts, self._counts = self._counts, Counter()
        totals: dict[tuple[str, int, int, str], list[int]] = {}
        for (entry, offset, correlation, index), count in counts.items():
            reason = _PREFIX.sub("", self._names.get(index, f"reason_{index}"))
            key = self._entries[entry], offset, correlation, reason.removesuffix(_NOT_ISSUED)
            totals.setdefault(key, [0, 0])[reason.endswith(_NOT_ISSUED)] += count
        return [Samples(*key, samples, not_issued) for key, (samples, not_issued) in totals.items()]

    def _called(self, what: str, *values: int, ignored: int = 0) -> int:
        params = _Params(_HEAD + 8 * len(values), None, self.context, (ctypes.c_void_p * 3)(*values))
        name = f"cuptiPCSampling{what}"
        result = getattr(self._library, name)(ctypes.byref(params))
        if result not in (0, ignored):
            raise refusal(self._library, name, result)
        return result

    def _read_names(self) -> dict[int, str]:
        """The stall reasons by CUPTI's numbers of them."""
        count = ctypes.c_size_t()
        self._call("GetNumStallReasons", ctypes.addressof(count))
        indices = (ctypes.c_uint32 * count.value)()
        texts = [ctypes.create_string_buffer(_MOST_NAME) for _ in range(count.value)]
        pointers = (ctypes.c_void_p * count.value)(*(ctypes.addressof(each) for each in texts))
        self._call("GetStallReasons", count.value, ctypes.addressof(indices), ctypes.addressof(pointers))
        return {index: text.value.decode() for index, text in zip(indices, texts, strict=True)}

    def _read_period(self) -> int | None:
        settings = [_setting(_PERIOD, 0)]
        try:
            found = self._configure("Get", settings)
        except CuptiError:
            return None
        return found[0].value.number or None

    def _configure(self, which: str, settings: list[_Setting]) -> Any:
        array = (_Setting * len(settings))(*settings)
        self._call(f"{which}ConfigurationAttribute", len(settings), ctypes.addressof(array))
        return array

    def _take(self, buffer: _Buffer) -> int:
        """Add what a buffer holds to what was taken before; return of how many instructions CUPTI has more."""
        data = buffer.data
        self.total += data.total_samples
        self.dropped += data.dropped_samples
        self.of_others += data.other_samples
        self.is_buffer_full |= bool(data.is_hardware_buffer_full)
        rows, held = buffer.rows[:data.pcs], buffer.reasons[:data.pcs]
        pointers, place = np.unique(rows["name"], return_inverse=True)
        texts = [ctypes.string_at(each).decode("utf-8", "replace") if each else "" for each in pointers.tolist()]
        entry = np.array([self._places.place(text) for text in texts], np.int64)[place]
        row, which = np.nonzero(np.arange(held.shape[1]) < rows["reason_count"][:, None])
        found = held[row, which]
        keys = (entry[row], rows["pc_offset"][row], rows["correlation_id"][row], found["index"])
        for *key, count in zip(*(each.tolist() for each in (*keys, found["samples"])), strict=True):
            self._counts[tuple(key)] += count
        left = data.remaining_pcs if data.pcs else 0
        data.total_samples = data.dropped_samples = data.other_samples = data.pcs = data.remaining_pcs = 0
        data.is_hardware_buffer_full = 0
        return left


class _Buffer:
    """Room for what CUPTI has decoded: `data` for CUPTI, which points to `rows`, and these to their `reasons`."""

    def __init__(self, room: int, reasons: int) -> None:
        self.rows: Any = np.zeros(room, np.dtype(_PcData))
        self.reasons: Any = np.zeros((room, reasons), np.dtype(_StallReason))
        self.rows["size"] = ctypes.sizeof(_PcData)
        self.rows["reasons"] = self.reasons.ctypes.data + np.arange(room) * self.reasons.strides[0]
        self.data = _Data(size=ctypes.sizeof(_Data), room=room, data=self.rows.ctypes.data)


def _setting(kind: int, *values: int) -> _Setting:
    made = _Setting(kind, 0)
    for at, value in enumerate(values):
        made.value.words[at] = value
    return made
