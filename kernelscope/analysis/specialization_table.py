"""`Recording.specializations`: the facts of an inspector as a pandas DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelscope.analysis.inspection import Kernel, Specialization, inspect_kernels
from kernelscope.analysis.type_words import short_arguments
from kernelscope.recording.model import Recording

if TYPE_CHECKING:
    import pandas as pd


def specialization_table(recording: Recording) -> pd.DataFrame:
    """Return one row a specialization, in the order of the table, with what the other tables say of it.

    Parameters
    ----------
    recording : Recording
        What was recorded; without specializations the result has all columns and no row.

    Returns
    -------
    pandas.DataFrame
        The columns of the table ``specializations`` as `Recording.table` gives them, and behind them:

        ``kernel``, ``arguments``
            The kernel's name; each argument's name and type in short, as in ``x: float32[:] C, n: int64``.
        ``launches``, ``captured``, ``compile_ns``, ``median_ns``
            Launches that ran it, and those that went into the capture of a graph; what compiling or loading it took
            here, null where that was before; median own host time of a launch.
        ``configurations``, ``occupancy``, ``limited_by``
            How many launch configurations it was launched with, streams apart; the least theoretical occupancy of
            these, 0 to 1, and what limits it there.
        ``cache_file``, ``reason_code``
            The disk cache's index file, and why it was compiled or loaded first; null where that was before.
    """
    import pandas as pd

    frame: pd.DataFrame = recording.table("specializations")
    held = {each.specialization_id: (kernel, each)
            for kernel in inspect_kernels(recording) for each in kernel.specializations}
    rows = [_facts(*held[at]) for at in range(len(held))]
    for name, dtype in _COLUMNS.items():
        kind = frame["signature"].dtype if dtype == "text" else dtype
        frame[name] = pd.Series([row[name] for row in rows], dtype=kind)
    return frame


_COLUMNS = {
    "kernel": "text", "arguments": "text", "launches": "int64", "captured": "int64", "compile_ns": "Int64",
    "median_ns": "float64", "configurations": "int64", "occupancy": "float64", "limited_by": "text",
    "cache_file": "text", "reason_code": "text",
}


def _facts(kernel: Kernel, each: Specialization) -> dict[str, Any]:
    known = [use for use in each.uses if use.occupancy is not None]
    least = min(known, key=lambda use: use.occupancy or 0.0, default=None)
    made = next((made for made in each.compiles if made.outcome != "wait"), None)
    return {
        "kernel": kernel.name,
        "arguments": short_arguments(each.arguments),
        "launches": each.launches,
        "captured": each.captured,
        "compile_ns": each.compile_ns,
        "median_ns": float("nan") if each.median_ns is None else each.median_ns,
        "configurations": len(each.uses),
        "occupancy": float("nan") if least is None else least.occupancy,
        "limited_by": ", ".join(least.limited_by) or None if least is not None else None,
        "cache_file": made and made.cache_file,
        "reason_code": made and made.reason_code,
    }
