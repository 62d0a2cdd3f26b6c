"""What each column of a card's tables means: one sentence each, shown where a pointer or the focus is on its title."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from kernelscope.registry import features, loaded

_PHASES = "host time of the launches by phase, in the colors of the bar above"
#: What a column of host time means.
HOST = "host time inside the launches, from each call to its return"

#: By the table's first title and the key of a value; the empty key is the first column. Features add their tables'.
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "Cell": {
        "": "the notebook cell, by its number; the timeline shows it",
        "launches": "kernel launches that the cell made",
        "kernels": "different kernels among them",
        "compiles": "compiles in the cell, inside launches and outside",
        "disk": "specializations that were loaded from a disk cache instead of being compiled",
        "memory": "launches whose specialization had been compiled or loaded before",
        "host": HOST,
        "wall": "time from the cell's start to its end",
        "gpu": "share of the time in which the GPU ran kernels, copies or memsets",
        "status": "how the cell ended, and how many of its launches raised an exception",
        "bars": _PHASES,
    },
    "Process": {
        "": "the process: its worker's name, its rank or its pid, with its machine below",
        "launches": "kernel launches that it made",
        "compiles": "its compiles",
        "host": HOST,
        "compile": "time of these compiles, and of loads from a disk cache",
        "busy": "time in which any of its kernels, copies or memsets ran on the GPU",
        "wait": "time in which its threads waited for the GPU",
        "communication": "time in which any of its NCCL kernels, or copies between GPUs, ran",
        "exposed": "of that, time in which none of its other kernels ran",
        "status": "how it ended: ok, terminated (by SIGTERM or SIGHUP), killed, cut off, or unfinished",
        "clock": "how far its times can be off against those of the other processes",
    },
    "Kernel": {
        "": "the kernel function, and where it is defined; %kernelscope inspect NAME shows its code",
        "launches": "launches that ran; those that were captured into a graph are listed below the name",
        "configurations": "different launch configurations: grid, block, dynamic shared memory and stream",
        "compiles": "compiles of this kernel, inside launches and outside",
        "specializations": "compiled versions, one for each combination of argument types",
        "memory": "launches whose specialization had been compiled or loaded before",
        "disk": "specializations that were loaded from a disk cache instead of being compiled",
        "host": HOST,
        "share": "share of the host time of all launches",
        "median": "host time of a launch without compiles: half of the launches took less",
        "p99": "host time of a launch without compiles: 99 % of the launches took less",
        "max": "host time of the longest launch, without compiles",
        "gpu_runs": "how often the kernel ran on the GPU",
        "gpu": "time that the kernel ran on the GPU, all runs together",
        "gpu_median": "time of one run on the GPU: half of the runs took less",
        "gpu_p99": "time of one run on the GPU: 99 % of the runs took less",
        "gpu_max": "time of the longest run on the GPU",
        "bars": _PHASES + "; below it how many launches took how long",
    },
    "Range": {
        "": "the name given to the NVTX range; ranges inside it are indented below it",
        "ranges": "how often this range was opened, inside the same ranges around it",
        "inclusive": "time from start to end of all of them, ranges inside included",
        "exclusive": "the same time without the ranges inside",
        "median": "time from start to end of one range: half of them took less",
        "min": "time from start to end of the shortest one",
        "max": "time from start to end of the longest one",
        "launches_inclusive": "launches in these ranges, those in ranges inside included",
        "launches": "the same without the ranges inside",
        "host_inclusive": "host time of these launches, from each call to its return",
        "host": "the same without the ranges inside",
        "gpu_inclusive": "time of kernels, copies and memsets on the GPU that were requested in these ranges",
        "gpu": "the same without the ranges inside",
        "others": "launches that other threads made while the range's own thread waited in it, such as autograd's in a "
                  "backward pass; in no other number of the row",
        "others_gpu": "time of kernels, copies and memsets on the GPU that other threads requested meanwhile",
        "bars": _PHASES,
    },
    "Function": {
        "": "the function of the CUDA driver (cu...) or of the runtime (cuda...)",
        "calls": "how often it was called",
        "total": "host time of all its calls",
        "median": "host time of one call: half of the calls took less",
        "p99": "host time of one call: 99 % of the calls took less",
        "max": "host time of the longest call",
    },
    "Other kernel": {
        "": "a kernel that ran on the GPU without a recorded launch, such as one of a library",
        "others": "how often it ran",
        "total": "time that it ran, all runs together",
        "longest": "time of the longest run",
        "median": "time of one run: half of the runs took less",
        "p99": "time of one run: 99 % of the runs took less",
    },
    "Algorithm": {
        "": "the library's algorithm that was requested, and whose it is",
        "requests": "how often it was requested",
        "hits": "requests that found it built already",
        "hit": "time of such a request: half of them took less",
        "misses": "requests that had to build it",
        "miss": "time of such a request: half of them took less",
        "time": "host time of all requests",
        "building": "of that, time in the compiler and the linker",
    },
    "Graph": {
        "": "the CUDA graph, its kernels, and what happened to it",
        "builds": "executable graphs that were instantiated from it",
        "build": "host time of one instantiation: half of them took less",
        "rebuilds": "instantiations of a graph that had been instantiated before",
        "rebuilding": "host time of all rebuilds",
        "updates": "executable graphs that were changed in place instead of instantiated again",
        "update": "host time of one update: half of them took less",
        "launches": "launches of the whole graph",
        "launch": "host time of one launch of the graph: half of them took less",
        "gpu": "GPU time from the first node's start to the last node's end, all launches together",
        "gpu_median": "the same of one launch: half of them took less",
    },
    "Grid": {
        "": "blocks of the grid along x, y and z",
        "block": "threads of a block along x, y and z",
        "shared": "dynamic shared memory of a block",
        "stream": "the CUDA stream that it was launched on",
        "launches": "launches with this configuration",
        "median": "host time of one launch: half of the launches took less",
        "occupancy": "share of a multiprocessor's threads that can be resident at once; not how busy the GPU was",
        "registers": "registers that a thread uses",
    },
    "Line": {
        "": "your code, and the functions elsewhere that it called; a line that is a link selects what it made in the "
            "timeline",
        "launches": "launches that ran, of which kernels is said at each number",
        "host": HOST + ", compiles in them included",
        "compile": "compiles and loads from a disk cache; those inside launches are in the host time too",
        "call": "host time of other CUDA calls that gave work to the GPU: copies, memsets, graphs; a copy that blocks "
                "waits here for the work before it",
        "gpu": "time of kernels, copies and memsets on the GPU, at the line that requested them",
        "wait": "time in which the line waited for the GPU",
        "bars": "compiling, launching, other CUDA calls and waiting; as wide as it gets for the line that took longest",
    },
    "Specialization": {
        "": "the argument types that the kernel was compiled for; the inspector shows its code",
        "origin": "whether it was compiled while recording, loaded from a disk cache, or there before",
        "launches": "launches that ran it",
        "registers": "registers that a thread uses",
        "shared": "static shared memory of a block, which the code declares",
        "local": "local memory of a thread: in the GPU's memory, for arrays and spilled registers",
        "code": "size of the machine code",
    },
}


def column_meaning(table: str, keys: Mapping[str, str]) -> str:
    """Return what a column of a table means: of each label with a value's key one line, or an empty string.

    Parameters
    ----------
    table : str
        The title of the table's first column.
    keys : mapping of str to str
        By label, the key of the value below it.
    """
    known = _columns().get(table, {})
    return "\n".join([f"{label}: {known[key]}" for label, key in keys.items() if key in known])


@functools.cache
def _columns() -> Mapping[str, Mapping[str, str]]:
    columns = dict(COLUMNS)
    for feature in features():
        if feature.card is not None and feature.card.meanings:
            columns.update(loaded(feature.card.meanings))
    return columns
