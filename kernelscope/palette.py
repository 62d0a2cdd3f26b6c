"""The colors of the views; ``frontend/generate.py`` passes them to the live ones.

They began as the palette of Okabe and Ito. Colors that mean different things and may lie beside each other differ for
people with any color vision (by 10 in CIEDE2000, also as Machado's model shows them to people without red, green or
blue cones), and are seen on both a white and a black ground, so that no theme needs others. A test computes both.
"""

from __future__ import annotations

#: The phases of a launch's host time.
PHASE_COLORS = {
    "dispatch": "#2b7bba",
    "compile": "#e69f00",
    "compile_wait": "#742d86",
    "prepare": "#5bbcea",
    "submit": "#a74882",
    "measuring": "#36634d",
    "finish": "#8d8685",
}
#: Host time of a launch of which the phase is not known.
OTHER_COLOR = "#98a0a8"

#: Parts of the GPU's time.
GPU_COLORS = {
    "kernel": "#009e73",
    "graphs": "#4f649e",
    "copy": "#d55e00",
}

#: Kernels by their name. Neighbours differ in lightness too, for people who see no red-green difference.
KERNEL_COLORS = ("#3678f5", "#e0a33a", "#1f987b", "#c075a7", "#4f649e", "#d1744a", "#73b3c8", "#83851e", "#9b82cf",
                 "#bda78b")
# What else a timeline draws.
COPY_COLOR = "#6b6e76"
MEMSET_COLOR = "#98a39f"
CELL_COLOR = "#9aa7b8"
COMPILE_COLOR = PHASE_COLORS["compile"]
#: A compiler pass, or a link phase.
PASS_COLOR = "#e9c67c"
#: A driver call; one that waits for the GPU; one that gave it work.
CALL_COLOR = "#7794c9"
WAIT_COLOR = "#c38ba3"
ASKING_COLOR = "#8fa9c4"
#: A graph launch as the GPU ran it, and what the host did to a graph.
GRAPH_COLOR = "#6c8b64"
EVENT_COLOR = "#42857d"
#: An NVTX range without a color.
RANGE_COLOR = "#76a88f"
#: A collection of Python's garbage.
GARBAGE_COLOR = "#7a6bc9"

#: What a GPU's counters said over time.
SAMPLE_COLOR = KERNEL_COLORS[4]

#: Frames of call paths: the user's code, that of libraries, kernels and copies, and what has no known call path.
FRAME_COLORS = {
    "user": "#e0a33a",
    "library": "#a3abb5",
    "kernel": "#1f987b",
    "unknown": "#8d6fb0",
}

#: What a cell's wall time went into, where that is no phase of a launch; launching as a whole is the color of submit.
PART_COLORS = {
    "launch": PHASE_COLORS["submit"],
    "autotuning": "#704010",
    "wait": WAIT_COLOR,
    "copy": GPU_COLORS["copy"],
    "memset": "#2525f4",
    "memory": "#b1a090",
    "graph": GRAPH_COLOR,
    "call": CALL_COLOR,
    "gc": GARBAGE_COLOR,
    "threads": "#364549",
    "recording": "#d5cc8e",
    "python": "#c3c8d0",
}

#: Text on a color: the first where the color's relative luminance (WCAG 2) is above `INK_FROM`, else the second. There
#: both have the same contrast, 4.58.
INKS = ("#000000", "#ffffff")
INK_FROM = 0.179
