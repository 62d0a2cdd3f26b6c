"""What a benchmark process asks the machine: its clock, its noise, its core, and whether the core is quiet."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import statistics
import time
from typing import Any

# Bound before a target's code runs, which may put another one in its place.
_now = time.perf_counter_ns
_ROUND_NS = 20_000


def clock() -> tuple[int, float]:
    """Return the clock's resolution, and what a reading of it costs, in nanoseconds.

    The resolution is the smallest step that was seen; the cost is the median of many short loops.
    """
    read = _now
    times = [read() for _ in range(2000)]
    steps = [later - earlier for earlier, later in zip(times, times[1:]) if later > earlier]
    costs: list[float] = []
    for _ in range(31):
        start = read()
        for _ in itertools.repeat(None, 100):
            read()
        costs.append((read() - start) / 101)
    return min(steps, default=1), round(statistics.median(costs), 1)


def noise(milliseconds: float) -> float:
    """Return which share of its time a loop that does nothing loses to others, from 0 to 1.

    Rounds of some 20 µs are timed, clock reading to clock reading. What a round should take is what the fastest
    twentieth of them took at most.
    """
    read, rounds = _now, 50
    while _spin(rounds) < _ROUND_NS:
        rounds *= 2
    took: list[int] = []
    last = read()
    end = last + int(milliseconds * 1e6)
    while last < end:
        for _ in itertools.repeat(None, rounds):
            pass
        now = read()
        took.append(now - last)
        last = now
    fast = sorted(took)[len(took) // 20]
    return max(0.0, 1.0 - fast * len(took) / sum(took))


def waited_ns() -> int:
    """Return how long this thread could have run and another had the processor, since it began; 0 where unknown.

    Linux counts it for each thread, in nanoseconds from switch to switch and not in ticks: the second number of
    ``schedstat``. What a thread sleeps or waits for, such as a lock or the device, is not in it; what it waits for the
    processor after that has come, is.
    """
    return (*_schedstat(), 0, 0)[1]


def counts_waits() -> bool:
    """Whether `waited_ns` is told: where it is not, the time that this thread had the processor is 0 as well."""
    return any(_schedstat()[:1])


def others_ns() -> int:
    """Return how long this process' other threads had a processor, since it began."""
    return time.process_time_ns() - time.thread_time_ns()


def may_pin(cores: list[int] | None) -> tuple[list[int] | None, str | None]:
    """Try whether this process may run on some cores only, and undo it.

    Returns
    -------
    tuple
        The cores in their order, or None; and why not, if there were any asked for.
    """
    if not cores:
        return None, None
    if not hasattr(os, "sched_setaffinity"):
        return None, "this system has no processor affinity"
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
        os.sched_setaffinity(0, before)
    except (OSError, ValueError) as error:
        return None, f"cores {cores} are refused: {getattr(error, 'strerror', None) or error}"
    return list(cores), None


def gpu(is_dry_run: bool) -> dict[str, Any]:
    """Return what the current context's device is; what cannot be found out is left out.

    Returns
    -------
    dict
        ``name``; ``driver``, NVIDIA's version; ``cuda``, the newest CUDA that it supports; ``clocks_mhz``, with ``sm``
        as it is and ``sm_max`` as it may be. On a dry run the device's name says so, and there is neither driver nor
        clock.
    """
    try:
        found, bus = _from_cuda()
    except (OSError, AttributeError):
        return {}
    if is_dry_run:
        return found
    with contextlib.suppress(OSError, AttributeError):  # no NVML: a container without it, or a Jetson
        found.update(_from_nvml(bus))
    return found


def _schedstat() -> list[int]:
    """What the kernel counts of this thread: nanoseconds that it ran, and that it waited to run; empty if not."""
    try:
        descriptor = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return []
    try:
        return [int(word) for word in os.read(descriptor, 100).split()]
    except (OSError, ValueError):
        return []
    finally:
        os.close(descriptor)


def _spin(rounds: int) -> int:
    """Return how long so many rounds take at best."""
    read, best = _now, 1 << 62
    for _ in range(20):
        start = read()
        for _ in itertools.repeat(None, rounds):
            pass
        best = min(best, read() - start)
    return best


def _from_cuda() -> tuple[dict[str, Any], bytes]:
    """Ask the CUDA driver that is loaded, in C, so that it does not matter which bindings a version has."""
    library = ctypes.CDLL("libcuda.so.1")
    device, version, text = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    found: dict[str, Any] = {}
    if library.cuDriverGetVersion(ctypes.byref(version)) == 0:
        found["cuda"] = f"{version.value // 1000}.{version.value % 1000 // 10}"
    if library.cuCtxGetDevice(ctypes.byref(device)) != 0:
        return found, b""
    if library.cuDeviceGetName(text, len(text), device) == 0:
        found["name"] = text.value.decode(errors="replace")
    bus = text.value if library.cuDeviceGetPCIBusId(text, len(text), device) == 0 else b""
    return found, bus


def _from_nvml(bus: bytes) -> dict[str, Any]:
    library = ctypes.CDLL("libnvidia-ml.so.1")
    if library.nvmlInit_v2() != 0:
        return {}
    found: dict[str, Any] = {}
    try:
        text, handle, value = ctypes.create_string_buffer(96), ctypes.c_void_p(), ctypes.c_uint()
        if library.nvmlSystemGetDriverVersion(text, len(text)) == 0:
            found["driver"] = text.value.decode(errors="replace")
        if bus and library.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(handle)) == 0:
            clocks: dict[str, int] = {}
            for name, ask in (("sm", library.nvmlDeviceGetClockInfo), ("sm_max", library.nvmlDeviceGetMaxClockInfo)):
                if ask(handle, 1, ctypes.byref(value)) == 0:  # 1: NVML_CLOCK_SM
                    clocks[name] = value.value
            found["clocks_mhz"] = clocks
    finally:
        library.nvmlShutdown()
    return found


# Quiet moments: when nobody else slows this thread's processor core down.
#
# A core can be slow without being taken away: its physical core's other thread is at work for somebody else, which on
# a virtual machine nothing tells. On the host of an H100 with 16 virtual cores a launch took 12.2 µs at some
# moments and 17.7 at others, for tens of milliseconds to seconds at a time, on whichever core. A short loop
# beside it took 1.0 to 1.2 and 1.6 to 2 times as long as at best (correlation of the two 0.95): it tells which
# moment it is.
#
# So there is such a *reference* before and after each batch, and a study's processes go on to another core,
# together, where one finds it slow. They stay as long as they can: while targets were on different cores, or came
# to another one for each batch, their differences varied twice as much as on one core that was left alone.
#
# Standard library only; Python 3.9 and later.

# Bound before a target's code runs, which may put another one in its place.

_NUMBERS = range(1200)
#: How long a quiet core is looked for, and how many references in turn must say that it is one.
_LONGEST_NS, _IN_TURN = 10_000_000, 4
# How many references, over all cores, tell what one takes at best; and which of them does, from the fastest.
_SAMPLES, _BEST = 192, 0.1


def reference_ns() -> int:
    """Return how long a short loop took just now: some 50 microseconds."""
    start = _now()
    total = 0
    for number in _NUMBERS:
        total += number * number
    return _now() - start


class Quiet:
    """The processor cores that this thread may be on, one at a time.

    Parameters
    ----------
    cores : list of int or None
        None where it is not put on any.
    """

    def __init__(self, cores: list[int] | None) -> None:
        self._cores = list(cores or [])
        self.core: int | None = None

    def go(self, core: int | None) -> None:
        """Be on a core from now on; None: where it was, or on the first one."""
        if not self._cores:
            return
        wanted = core if core in self._cores else self._cores[0] if self.core is None else self.core
        if wanted != self.core:
            os.sched_setaffinity(0, {wanted})
            self.core = wanted

    def seek(self, core: int | None, limit_ns: int | None) -> bool:
        """Go to a core, and from there on to others until the reference takes at most so long, or time is up.

        Parameters
        ----------
        core : int or None
            Where to begin, as `go` takes it.
        limit_ns : int or None
            None: the first core is as good as any.

        Returns
        -------
        bool
            Whether it is another core than before, whose caches know nothing of this thread.
        """
        before = self.core
        self.go(core)
        if limit_ns:
            until = _now() + _LONGEST_NS
            while any(reference_ns() > limit_ns for _ in range(_IN_TURN)) and _now() < until:
                self._go_on()
        return self.core != before

    def best_ns(self) -> int:
        """Return what the reference takes at quiet moments, as far as some milliseconds on each core tell."""
        before = self.core
        times: list[int] = []
        for _ in range(max(1, len(self._cores))):
            self._go_on()
            times += [reference_ns() for _ in range(max(12, _SAMPLES // max(1, len(self._cores))))]
        self.go(before)
        return sorted(times)[int(_BEST * len(times))]

    def _go_on(self) -> None:
        if self._cores:
            place = self._cores.index(self.core) + 1 if self.core is not None else 0
            self.go(self._cores[place % len(self._cores)])
