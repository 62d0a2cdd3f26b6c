"""Call paths: what each way through Python functions to launches cost, as a flame graph (``--stacks``)."""

from __future__ import annotations

from kernelscope.registry import CardSection, Feature, LiveDrawing, ShowOption

_HERE = __name__

FEATURE = Feature(
    "call_paths",
    options=f"{_HERE}.options:CallPathsOptions",
    methods={name: f"{_HERE}.export:{name}" for name in ("to_speedscope", "to_collapsed")},
    functions={"flame": f"{_HERE}.view:flame"},
    magics={"flame": "show the call paths of a cell as a flame graph; record them with --stacks"},
    verbs=f"{_HERE}.command:VERBS",
    show=(ShowOption("stacks", "the heaviest call paths, as a tree", f"{_HERE}.text:call_paths_text"),),
    exporters=f"{_HERE}.exporters:EXPORTERS",
    card=CardSection(170, ("stacks",), f"{_HERE}.card:section",
                     live=LiveDrawing("flame", "timeline_flame_page", f"{_HERE}.wire:page_data")),
)
