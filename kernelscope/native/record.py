"""The launch record's layouts, from its declaration in `kernelscope.schema`: of NumPy and of C.

``python -m kernelscope.native.record`` writes ``csrc/record.h``; do that after the declaration has changed.
"""

from __future__ import annotations

from pathlib import Path

from kernelscope.schema import LAUNCH_RECORD, RECORD_TIMES, RECORD_VERSION

_CODES = {"uint64_t": "<u8", "int64_t": "<i8", "int32_t": "<i4", "uint16_t": "<u2"}

#: Names and types of the fields, as `numpy.dtype` takes them: little-endian, without gaps.
LAYOUT = [(field.name, _CODES[field.c_type]) for field in LAUNCH_RECORD]
BYTES = sum(int(code[2:]) for _, code in LAYOUT)
#: The times between a launch's two ends.
BOUNDARIES = RECORD_TIMES[1:-1]

HEADER = Path(__file__).parent / "csrc" / "record.h"
_COMMAND = "python -m kernelscope.native.record"
#: Bits by which the check is rotated for each further word of 8 bytes.
_TURN = 9


def c_header() -> str:
    """Return the text of ``csrc/record.h``."""
    words = BYTES // 8
    turns = {name: _TURN * (words - 1 - place) % 64 for place, name in enumerate(["sequence", *RECORD_TIMES])}
    fields = "\n".join(
        f"    {'_Atomic ' if field.name == 'sequence' else ''}{field.c_type} {field.name}; /* {field.meaning} */"
        for field in LAUNCH_RECORD)
    boundaries = " ".join(f"X({name.removesuffix('_ns')}, {turns[name]})" for name in BOUNDARIES)
    return f"""\
/* The launch record: made by `{_COMMAND}` from LAUNCH_RECORD of kernelscope/schema/launch_record.py. */
#ifndef KS_RECORD_H
#define KS_RECORD_H

#include <stdint.h>

#define KS_VERSION {RECORD_VERSION}u
#define KS_SLOT_BYTES {BYTES}u

typedef struct {{
{fields}
}} ks_slot;

_Static_assert(sizeof(ks_slot) == KS_SLOT_BYTES, "a slot has no gaps");

/* The times between a launch's two ends, without the ending `_ns`, and by how many bits the check turns each. */
#define KS_BOUNDARIES(X) {boundaries}
enum {{ KS_TURN_SEQUENCE = {turns["sequence"]}, KS_TURN_START = {turns["start_ns"]}, KS_TURN_END = {turns["end_ns"]} }};

#endif
"""


if __name__ == "__main__":
    HEADER.write_text(c_header(), encoding="utf-8")
