"""The sets of the GPU's counters that are measured together, by Nsight Compute's names of the metrics."""

from __future__ import annotations

import re

from kernelscope.suggestions import did_you_mean

#: Kinds of operations, as the metrics name them.
OPERATIONS = ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma", "hadd", "hmul", "hfma", "integer")

_BASIC = (
    "gpu__time_duration.sum", "dram__bytes.sum", "dram__bytes.sum.pct_of_peak_sustained_elapsed",
    "sm__inst_issued.avg.pct_of_peak_sustained_elapsed", "sm__warps_active.avg.pct_of_peak_sustained_active",
)
_ROOFLINE = (
    "gpu__time_duration.sum",
    *(f"sm__sass_thread_inst_executed_op_{each}_pred_on.sum" for each in OPERATIONS),
    "sm__inst_executed_pipe_tensor.sum", "dram__bytes.sum", "lts__t_bytes.sum", "l1tex__t_bytes.sum",
    *(f"sm__sass_thread_inst_executed_op_{each}_pred_on.sum.peak_sustained" for each in ("ffma", "dfma", "hfma")),
    "sm__cycles_elapsed.avg.per_second", "dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second",
    "lts__t_bytes.sum.peak_sustained", "lts__cycles_elapsed.avg.per_second",
)
_MEMORY = (
    "l1tex__t_sector_hit_rate.pct", "lts__t_sector_hit_rate.pct",
    *(name.format(each) for each in ("ld", "st") for name in (
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{}.ratio",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum",
        "l1tex__t_sectors_pipe_lsu_mem_local_op_{}.sum")),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    *(f"smsp__sass_{each}{ideal}.sum" for each in ("sectors_mem_global", "l1tex_pipe_lsu_wavefronts_mem_shared")
      for ideal in ("", "_ideal")),
)

#: Metrics by the name of their set: ``basic`` takes one pass, ``full`` about ten (on an H200).
SETS: dict[str, tuple[str, ...]] = {
    "basic": _BASIC, "roofline": _ROOFLINE, "memory": _MEMORY,
    "full": tuple(dict.fromkeys((
        *_BASIC, "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__throughput.avg.pct_of_peak_sustained_elapsed", *_ROOFLINE, *_MEMORY))),
}

_OF_CODE = re.compile(r"(?:sm|smsp)__(sass_\w+)\.sum")
_OPERATIONS = re.compile(r"sass_thread_inst_executed_op_([a-z]+)_pred_on")
#: How often threads executed an instruction, of which operations are made.
EXECUTED = "smsp__sass_thread_inst_executed_pred_on"

_METRIC = re.compile(r"[a-z0-9]+__\w+\.\w+(\.\w+)*")


def metrics_of(wanted: str) -> tuple[str, ...]:
    """Return the metrics of a set, or of names with commas between.

    Raises
    ------
    ValueError
        It is neither; the message names the nearest set.
    """
    if wanted in SETS:
        return SETS[wanted]
    names = tuple(dict.fromkeys(name.strip() for name in wanted.split(",") if name.strip()))
    wrong = [name for name in names if not _METRIC.fullmatch(name)]
    if wrong or not names:
        what = wrong[0] if wrong else wanted
        raise ValueError(f"metrics {wanted!r}: {what!r} is no set ({', '.join(SETS)}) and no metric such as "
                         f"dram__bytes.sum{did_you_mean(what, SETS)}")
    return names


def is_counted_by_code(name: str) -> bool:
    """Return whether a metric is counted by code that is patched into the kernel: the range profiler returns 0 then."""
    return "__sass_" in name and not name.endswith("peak_sustained")


def operation_of(name: str) -> str | None:
    """Return which operations a metric counts, such as ``ffma``; None for another metric."""
    found = _OF_CODE.fullmatch(name)
    operation = found and _OPERATIONS.fullmatch(found[1])
    return operation[1] if operation and operation[1] in OPERATIONS else None


def instruction_metric(name: str) -> str | None:
    """Return what CUPTI counts of each instruction that a metric is the sum of; None where it is no such sum."""
    found = _OF_CODE.fullmatch(name)
    return None if found is None else EXECUTED if operation_of(name) else f"smsp__{found[1]}"


#: What is counted of each instruction for the sets.
BY_INSTRUCTION = tuple(dict.fromkeys(filter(None, map(instruction_metric, SETS["full"]))))


def unit_of(name: str) -> str | None:
    """Return the unit of a metric, of its name; None for a ratio or where the name does not tell."""
    base, *rollups = name.split(".")
    if "per_second" in rollups:
        return "byte/s" if "bytes" in base else "cycle/s"
    if any(each == "pct" or each.startswith("pct_of") for each in rollups):
        return "%"
    if "ratio" in rollups:
        return None
    words = {"time_duration": "ns", "bytes": "byte", "cycles": "cycle", "inst_executed": "inst", "sectors": "sector"}
    return next((unit for word, unit in words.items() if word in base), None)
