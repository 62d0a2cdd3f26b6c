"""Write what the front end and the Python package share into ``shared/generated.ts``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernelscope import palette
from kernelscope.units import MISSING
from kernelscope.views.parts import phase_label
from kernelscope.views.timeline import model

TARGET = Path(__file__).parent / "shared" / "generated.ts"
_NAMED = ("cell", "compile", "pass", "call", "wait", "asking", "graph", "event", "range", "copy", "memset", "garbage",
          "sample")


def generated() -> str:
    """Return the module's text."""
    colors = {name: getattr(palette, f"{name.upper()}_COLOR") for name in _NAMED}
    parts = [
        "// Written by frontend/generate.py out of the Python package: `make frontend` writes it anew.\n",
        _constant("MISSING", MISSING, "What stands for a value that was not recorded."),
        _constant("PHASES", [*map(phase_label, palette.PHASE_COLORS), "other"],
                  "The phases of a launch's host time; the last one is time of which the phase is not known."),
        _constant("PHASE_COLORS", [*palette.PHASE_COLORS.values(), palette.OTHER_COLOR], "Their colors."),
        _constant("PHASE_UNKNOWN", len(palette.PHASE_COLORS), "The place of the last one."),
        _constant("KERNEL_COLORS", list(palette.KERNEL_COLORS), "Kernels by their name."),
        _constant("FRAME_COLORS", palette.FRAME_COLORS, "Frames of a flame graph by their kind."),
        _constant("INKS", list(palette.INKS), "Text on a color: the first where it is lighter than INK_FROM."),
        _constant("INK_FROM", palette.INK_FROM, "A relative luminance, as WCAG defines it."),
        _constant("COLORS", colors, "What else the timeline draws."),
        _constant("PARTS", model.PARTS, "Samples are percents, in so many parts of one."),
        _constant("NO_END", model.NO_END, "Flags of the timeline's rows: their end is not known,"),
        _constant("NO_START", model.NO_START, "nor is their start,"),
        _constant("NO_CALL", model.NO_CALL, "or the driver call that asked for them."),
    ]
    return "\n".join(parts)


def _constant(name: str, value: Any, meaning: str) -> str:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    if isinstance(value, dict):
        for key in value:
            text = text.replace(f'  "{key}":', f"  {key}:")
    return f"/** {meaning} */\nexport const {name} = {text};\n"


if __name__ == "__main__":
    TARGET.write_text(generated(), encoding="utf-8")
