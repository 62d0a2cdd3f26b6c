"""The colors of the views; ``frontend/generate.py`` passes them to the live ones.

They are from the palette of Okabe and Ito or near it, which people with any color vision tell apart, and have enough
contrast on both a white and a black ground, so that no theme needs others.
"""

from __future__ import annotations

#: The phases of a launch's host time.
PHASE_COLORS = {
    "dispatch": "#2b7bba",
    "compile": "#e69f00",
    "prepare": "#5bbcea",
    "submit": "#c66fa0",
    "finish": "#8a8f98",
}
#: Host time of a launch of which the phase is not known.
OTHER_COLOR = "#9aa0a8"

#: Parts of the GPU's time.
GPU_COLORS = {
    "kernel": "#009e73",
    "copy": "#d55e00",
}

#: Kernels by their name. Neighbours differ in lightness too, for people who see no red-green difference.
KERNEL_COLORS = ("#3f7fc4", "#e0a33a", "#1f9e89", "#c77bb5", "#5a6fb0", "#d1744a", "#74b3c9", "#8d8a3f", "#9a7fd1",
                 "#b9a58a")
# What else a timeline draws.
COPY_COLOR = "#6f8f9f"
MEMSET_COLOR = "#98a39f"
CELL_COLOR = "#9aa7b8"
COMPILE_COLOR = PHASE_COLORS["compile"]
#: A compiler pass, or a link phase.
PASS_COLOR = "#f0c765"
#: A driver call; one that waits for the GPU; one that gave it work.
CALL_COLOR = "#7d8fa6"
WAIT_COLOR = "#c9a9c0"
ASKING_COLOR = "#8fa9c4"
#: A graph launch as the GPU ran it, and what the host did to a graph.
GRAPH_COLOR = "#6b9f7f"
EVENT_COLOR = "#4f8f8b"
#: An NVTX range without a color.
RANGE_COLOR = "#76a88f"
#: A collection of Python's garbage.
GARBAGE_COLOR = "#7a6bc9"

#: What a cell's wall time went into, where that is no phase of a launch; launching as a whole is the color of submit.
PART_COLORS = {
    "launch": PHASE_COLORS["submit"],
    "wait": WAIT_COLOR,
    "copy": GPU_COLORS["copy"],
    "memory": "#b9a58a",
    "graph": GRAPH_COLOR,
    "call": CALL_COLOR,
    "gc": GARBAGE_COLOR,
    "recording": "#5f6670",
    "python": "#c3c8d0",
}
