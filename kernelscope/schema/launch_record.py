"""The record of a launch, as it is written while it runs."""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """One field of the launch record.

    Attributes
    ----------
    name : str
        Its name; a time's is also that of a column of the table ``launches``.
    c_type : str
        ``uint64_t``, ``int64_t``, ``int32_t`` or ``uint16_t``.
    unit : str
        ``ns`` for times, or an empty string.
    meaning : str
        One sentence for the reference.
    """

    name: str
    c_type: str
    unit: str
    meaning: str


#: Raised whenever `LAUNCH_RECORD` changes: journals of another version are refused.
RECORD_VERSION = 2

#: What is written of a launch while it runs, in this order and without gaps, to memory or to a journal's file. All of
#: its layouts are made from this: C's struct and what goes over all times there (``csrc/record.h``, which ``python -m
#: kernelscope.native.record`` writes), NumPy's dtype, the columns of the table ``launches``, the table in the docs.
#: Times come in the order in which they pass; an unknown one is -1.
LAUNCH_RECORD = (
    Field("sequence", "uint64_t", "",
          "The launch's index + 1; bit 63 is set while it is under way; 0 is an empty slot."),
    Field("start_ns", "int64_t", "ns", "The launch call was entered: dispatch begins."),
    Field("dispatch_end_ns", "int64_t", "ns", "The specialization was found (compile included): prepare begins."),
    Field("submit_start_ns", "int64_t", "ns", "Arguments were marshalled: the driver call begins."),
    Field("submit_end_ns", "int64_t", "ns", "The driver call returned: finish begins."),
    Field("end_ns", "int64_t", "ns", "The launch call returned or raised; null where a probe cannot see it, and where "
          "its process died first."),
    Field("target", "int32_t", "", "What was launched: a row of the journal's targets."),
    Field("configuration", "int32_t", "", "The launch configuration: a row of `configurations`."),
    Field("site", "int32_t", "", "Where it was made: a row of the journal's sites, a host thread and a line of the "
          "user's code."),
    Field("kind", "uint16_t", "", "1 is a launch, 0 one that could not be recorded after all."),
    Field("check", "uint16_t", "", "Of all the others; while it is under way, of all but the times after the first."),
)
#: Its times: the first and the last are a launch's ends, those between them the boundaries of its phases.
RECORD_TIMES = tuple(field.name for field in LAUNCH_RECORD if field.unit == "ns")
