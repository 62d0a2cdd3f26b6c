"""Two recordings beside each other, and the runs of a cell: what changed, and what became faster or slower."""

from __future__ import annotations

from kernelscope.registry import Feature

_HERE = __name__

FEATURE = Feature(
    "compare",
    methods={"compare": f"{_HERE}.view:compare_with"},
    functions={"compare": f"{_HERE}.view:compare", "history": f"{_HERE}.command:history"},
    commands={
        "compare": "show what differs between two .kscope files; fail where something became slower",
        "history": "show the runs of a cell in the .kscope files of a folder",
    },
    magics={
        "compare": "show what differs between two cells, or between the newest one and its run before",
        "history": "show the runs of a cell, of the newest without a CELL, in this session and in a folder's files",
    },
    verbs=f"{_HERE}.command:VERBS",
    answers=(f"{_HERE}.view:ComparisonAnswer", f"{_HERE}.history:HistoryAnswer"),
    since_last_run=f"{_HERE}.history:since_last_run",
    tools={"compare": f"{_HERE}.tools:compare", "history": f"{_HERE}.tools:history"},
    tool_instructions="compare says what changed between two recordings, or two of their cells, and history what each "
                      "run of a cell took.",
)
