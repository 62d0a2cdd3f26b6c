"""What a benchmark process asks the machine: its clock, its noise, the processor core to run on, the GPU."""

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
