"""What parts of time are called, each by one name: in headlines, bars, legends, tables, timelines and charts.

Launches have phases (`PHASE_LABELS`); the wall time of cells, and the time in which a GPU idles, have parts
(`PART_LABELS`), of which those of launches without compiles together are *launching*; and a GPU's time has parts
(`GPU_LABELS`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelscope.analysis.launches import COMPILING

#: The phases of a launch's host time, and what of it is in none.
PHASE_LABELS: Mapping[str, str] = {
    "dispatch": "dispatch", "compile": "compile", "compile_wait": "compile wait", "prepare": "prepare",
    "submit": "submit", "measuring": "measuring", "finish": "finish", "unsplit": "launches without phases",
}

#: The parts of a cell's wall time, and of the host's time while a GPU idles. Those of a launch are called like its
#: phases where they stand by themselves.
PART_LABELS: Mapping[str, str] = {
    **{name: label for name, label in PHASE_LABELS.items() if name not in COMPILING},
    "python": "Python outside launches",
    "outside": "Python outside launches",
    "compile": "compiling",
    "compile_wait": "waiting for a compile",
    "launch": "launching",
    "autotuning": "autotuning",
    "measuring": "measuring",
    "wait": "waiting for the GPU",
    "copy": "copying",
    "memset": "filling memory",
    "memory": "allocating and freeing memory",
    "graph": "working on graphs",
    "call": "other CUDA calls",
    "gc": "garbage collection",
    "threads": "Python or waiting, while other threads worked",
    "recording": "recording",
}

#: What a GPU did with its time.
GPU_LABELS: Mapping[str, str] = {"kernel": "kernel", "graphs": "graphs", "copy": "copy",
                                  "memset": "memset", "measuring": "measuring", "idle": "idle"}


def phase_label(name: str) -> str:
    """Return what a phase of launches is called."""
    return PHASE_LABELS[name]


def doing(name: str) -> str:
    """Return what the host was doing in a part of time, as the end of "while the host was ..."."""
    label = PART_LABELS[name]
    return label if label.split()[0].endswith("ing") else f"in {label}"


def part_label(name: str, *, is_imported: bool = False) -> str:
    """Return what a part of time is called; what is imported may be of any language."""
    return "outside launches" if is_imported and name == "outside" else PART_LABELS[name]
