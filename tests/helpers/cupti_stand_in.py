"""Python's side of the stand-in for CUPTI: built once a session, scripted by tests."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

from kernelscope.clock import now
from kernelscope.dryrun.build import find_compiler

SOURCES = sorted((Path(__file__).resolve().parent.parent / "probes" / "cupti").glob("stand_in*.c"))
DRIVER, RUNTIME = 1, 2
KERNEL, MEMCPY, MEMSET, MEMCPY_PEER, SYNCHRONIZATION = 10, 1, 2, 22, 38
#: Numbers of functions have gaps, as the real ones have.
FUNCTIONS = {
    DRIVER: {3: "cuLaunchKernel", 4: "cuLaunchKernelEx", 20: "cuMemcpyHtoD_v2", 21: "cuMemAlloc_v2",
             22: "cuGraphLaunch", 40: "cuCtxSynchronize", 41: "cuCtxGetCurrent", 42: "cuStreamSynchronize",
             60: "refusedByThisVersion",
             90: "cuMemsetD8_v2"},
    RUNTIME: {7: "cudaLaunchKernel_v7000", 8: "cudaMemcpy_v3020", 9: "cudaGetDevice_v3020"},
}
NUMBERS = {(domain, name): number for domain, names in FUNCTIONS.items() for number, name in names.items()}
OFFSET = 1_700_000_000_000_000_000


def build(folder: Path) -> Path:
    """Compile the stand-in into `folder`, with an empty libnvperf_host beside it, and return its file."""
    path = folder / "libstandin.so"
    for sources, made in (map(str, SOURCES), path), (["-xc", os.devnull], folder / "libnvperf_host.so"):
        subprocess.run([*find_compiler(), "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror",
                        "-fvisibility=hidden", "-fPIC", "-pthread", "-shared", *sources, "-o", str(made)], check=True)
    return path


class StandIn:
    """Calls back and writes records as CUPTI does; times are the host clock's, and `offset` away on CUPTI's."""

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self.library: Any = ctypes.CDLL(self.path)
        self.library.stand_in_call.restype = ctypes.c_uint32
        self.library.stand_in_client.restype = ctypes.c_char_p
        self.offset = OFFSET
        self._names: list[Any] = []
        self._graphs = itertools.count(1)
        self.library.stand_in_reset()
        for domain, names in FUNCTIONS.items():
            for number, name in names.items():
                self.library.stand_in_function(domain, number, name.encode())

    def call(self, name: str = "cuLaunchKernelEx", start: int | None = None, end: int | None = None, *,
             thread: int | None = None, result: int = 0, domain: int = DRIVER, id: int = 0) -> int:
        """Tell of a driver or runtime call and return its correlation id."""
        start = now() if start is None else start
        end = start + 2_000 if end is None else end
        thread = threading.get_ident() if thread is None else thread
        return self.library.stand_in_call(
            domain, NUMBERS[domain, name], ctypes.c_uint64(thread), ctypes.c_uint64(start), ctypes.c_uint64(end),
            result, id)

    @property
    def stamp(self) -> int:
        """The address of what gives the times and threads of calls, for `Cupti`."""
        return ctypes.cast(self.library.stand_in_stamp, ctypes.c_void_p).value or 0

    def kernel(self, id: int, name: str | None, start: int, end: int, *, device: int = 0, stream: int = 7,
               grid: tuple[int, ...] = (1, 1, 1), block: tuple[int, ...] = (32, 1, 1),
               cluster: tuple[int, ...] = (0, 0, 0), shared: int = 0, graph: int = 0, node: int = 0) -> None:
        shape = (ctypes.c_int32 * 10)(*grid, *block, *cluster, shared)
        self.library.stand_in_kernel(id, None if name is None else name.encode(), self._time(start), self._time(end),
                                     device, stream, shape, graph, ctypes.c_uint64(node))

    def copy(self, id: int, direction: int, source: int, target: int, size: int, start: int, end: int, *,
             peer: bool = False, graph: int = 0, node: int = 0) -> None:
        self.library.stand_in_copy(int(peer), id, direction, source, target, ctypes.c_uint64(size), self._time(start),
                                   self._time(end), 0, 7, graph, ctypes.c_uint64(node))

    def memset(self, id: int, memory: int, size: int, start: int, end: int) -> None:
        self.library.stand_in_memset(id, memory, ctypes.c_uint64(size), self._time(start), self._time(end), 0, 7)

    def wait(self, id: int, type: int, start: int, end: int, stream: int = 0xFFFFFFFF) -> None:
        self.library.stand_in_wait(id, type, self._time(start), self._time(end), ctypes.c_uint32(stream))

    def launch(self, name: str = "axpy", start: int | None = None, *, queue: int = 3_000, execute: int = 5_000,
               **kernel: Any) -> int:
        """Write a driver call of this thread and the kernel it starts; return the correlation id."""
        start = now() if start is None else start
        id = self.call("cuLaunchKernelEx", start, start + 1_000)
        self.kernel(id, name, start + 1_000 + queue, start + 1_000 + queue + execute, **kernel)
        return id

    def graph_launch(self, names: list[str], start: int, **kernel: Any) -> int:
        """Write the launch of a graph with a kernel node of each name."""
        id, graph = self.call("cuGraphLaunch", start, start + 4_000), next(self._graphs)
        for number, name in enumerate(names):
            at = start + 5_000 + number * 10_000
            self.kernel(id, name, at, at + 8_000, graph=graph, node=(graph << 32) + number, **kernel)
        return id

    def raw(self, data: bytes) -> None:
        self.library.stand_in_raw(data, ctypes.c_size_t(len(data)))

    def many(self, count: int, name: str, start: int, thread: int | None = None) -> None:
        held = ctypes.create_string_buffer(name.encode())
        self._names.append(held)
        shape = (ctypes.c_int32 * 10)(4, 1, 1, 128, 1, 1, 0, 0, 0, 0)
        self.library.stand_in_many(count, 4, ctypes.c_uint64(threading.get_ident() if thread is None else thread),
                                   held, self._time(start), shape)

    def fail(self, function: str, code: int) -> None:
        self.library.stand_in_fail(function.encode(), code)

    def set_time(self, fixed: int = 0, offset: int = OFFSET) -> None:
        """Have CUPTI's clock stand at the host's time `fixed`, or 0: run; and be `offset` ahead of it."""
        self.offset = offset
        self.library.stand_in_time(ctypes.c_int64(fixed), ctypes.c_int64(offset))

    @property
    def left_on(self) -> list[str]:
        """What a client should have switched off."""
        found = [f"kind {kind}" for kind in range(64) if self.library.stand_in_enabled(kind)]
        profilers = self.library.stand_in_profiler_left_on()
        return found + [f"client {self.client}"] * bool(self.client) + [f"{profilers} of a profiler"] * bool(profilers)

    @property
    def client(self) -> str:
        return self.library.stand_in_client().decode()

    def _time(self, host: int) -> Any:
        return ctypes.c_uint64(host + self.offset if host else 0)


def health(recording: Any) -> list[dict[str, Any]]:
    """Return what a recording's health says of CUPTI."""
    return [row for row in recording.rows("health") if row["probe"] == "cupti"]


def column(recording: Any, table: str, name: str) -> list[Any]:
    """Return a column of a recording's table as it is, without pandas."""
    return recording.arrow(table).column(name).to_pylist()


def built() -> Path:
    """The stand-in, compiled into a folder that stays until the process ends: for benchmarks."""
    folder = tempfile.TemporaryDirectory()
    path = build(Path(folder.name))
    _folders.append(folder)
    return path


_folders: list[tempfile.TemporaryDirectory[str]] = []
