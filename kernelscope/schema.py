"""Every table and column of a recording: name, dtype, unit and meaning."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

#: The last instant, and minus the first one, that a recording may name: 73 years, so that a difference of two is still
#: an int64. Times before 0 come of merging recordings of several machines.
MAX_TIME_NS = 2**61
#: What one table's durations or sizes may add up to, so that sums are exact.
MAX_SUM = 2**62
#: The most that an int32 holds: ids and counts.
MAX_COUNT = 2**31 - 1
#: Above every address that a process can have, and so above every handle.
MAX_HANDLE = 2**62
#: Frames of a call path at most, of a deeper one the innermost; a file with a deeper one is refused.
MAX_STACK_FRAMES = 512
#: How much of a launch is recorded: its two ends, or every phase boundary between them.
DETAILS = ("launch", "phases")
#: What a recorder keeps, in the order of a journal's numbers: all launches, the newest, the first.
MODES = ("grow", "ring", "stop")


class Column(NamedTuple):
    """One column of a table.

    Attributes
    ----------
    name : str
        Its name, with the unit at its end where it has one (``start_ns``, ``sharedmem_bytes``).
    dtype : str
        ``int64``, ``int32``, ``float64``, ``bool``, ``string``, or ``category`` (a string of few distinct values).
    meaning : str
        One sentence for the reference.
    unit : str
        The unit, or an empty string.
    nullable : bool
        Whether a row may leave it out.
    is_path : bool
        Whether it holds a file's path, which a saved file cuts down to the file's name unless asked.
    low, high : int or None
        The least and the most that its numbers may be; None where it holds none. A file with another one is refused.
    values : tuple of str
        The texts that an enumeration consists of, which redaction keeps; empty for other columns. A file with another
        one is refused, unless the column is open.
    is_open : bool
        Whether it holds other texts beside `values`: names that users, libraries and probes give.
    """

    name: str
    dtype: str
    meaning: str
    unit: str = ""
    nullable: bool = False
    is_path: bool = False
    low: int | None = None
    high: int | None = None
    values: tuple[str, ...] = ()
    is_open: bool = False

    @property
    def is_enumeration(self) -> bool:
        """Whether it holds its `values` and nothing else."""
        return bool(self.values) and not self.is_open


@dataclass(frozen=True)
class Table:
    """One table: what a row is, and its columns in order; files of an older schema than `since` lack it."""

    name: str
    row: str
    columns: tuple[Column, ...]
    since: int = 1

    def column(self, name: str) -> Column:
        """Return the column called `name`; raises `KeyError` where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name!r} has no column {name!r}; it has {', '.join(self.names)}")

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Return the columns' names, in order."""
        return tuple(column.name for column in self.columns)


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


def _id(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of row numbers of the table that it names."""
    return Column(name, "int32", meaning, nullable=nullable, low=0, high=MAX_COUNT)


def _long_id(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of row numbers of one of the tables that can be long: launches, activities and API calls."""
    return Column(name, "int64", meaning, nullable=nullable, low=0, high=MAX_COUNT)


def _time(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of instants on the host clock."""
    return Column(name, "int64", meaning, unit="ns", nullable=nullable, low=-MAX_TIME_NS, high=MAX_TIME_NS)


def _duration(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of differences of times."""
    return Column(name, "int64", meaning, unit="ns", nullable=nullable, low=0, high=MAX_TIME_NS)


def _amount(name: str, meaning: str) -> Column:
    """Return a column of nanoseconds that were worked out: they have fractions, and may be unknown."""
    return Column(name, "float64", meaning, unit="ns", nullable=True, low=0, high=MAX_TIME_NS)


def _bytes(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """Return a column of sizes."""
    return Column(name, "int64", meaning, unit="bytes", nullable=nullable, low=0, high=MAX_TIME_NS)


def _count(name: str, meaning: str, *, nullable: bool = True) -> Column:
    """Return a column of small whole numbers."""
    return Column(name, "int32", meaning, nullable=nullable, low=0, high=MAX_COUNT)


def _handle(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """Return a column of handles and ids that the system, the driver or CUPTI gave."""
    return Column(name, "int64", meaning, nullable=nullable, low=0, high=MAX_HANDLE)


def _text(name: str, meaning: str, values: Iterable[str] = (), *, nullable: bool = True,
          is_path: bool = False) -> Column:
    """Return a column of texts, some of which may be known beforehand."""
    return Column(name, "string", meaning, nullable=nullable, is_path=is_path, values=tuple(values), is_open=True)


def _word(name: str, meaning: str, values: Iterable[str] = (), *, nullable: bool = False) -> Column:
    """Return a column of texts of which few are distinct, some of which may be known beforehand."""
    return Column(name, "category", meaning, nullable=nullable, values=tuple(values), is_open=True)


def _enumeration(name: str, values: Mapping[str, str], *, lead: str = "", end: str = "",
                 nullable: bool = False) -> Column:
    """Return a column of these texts and no others; each has what is said of it behind its name, or nothing."""
    *most, last = (f"{value} ({note})" if note else value for value, note in values.items())
    return Column(name, "category", f"{lead}{', '.join(most)}{',' if len(most) > 1 else ''} or {last}{end}.",
                  nullable=nullable, values=tuple(values))


# Every table and column of a recording: name, dtype, unit and meaning.
#
# This page is the contract between the recorder, the file format, the analysis and whoever reads a recording with
# other tools. A column that a framework cannot fill is null, never zero; ids are small integers and are row numbers
# of the table that they name; times are host-clock nanoseconds (`kernelscope.clock`). What only one framework has
# goes into an ``attributes`` column of JSON. No table holds an argument's value.

__all__ = ["LAUNCH_RECORD", "METADATA", "SCHEMA_VERSION", "TABLES", "UNKNOWN", "Column", "Field", "Metadatum", "Table"]

#: Raised whenever a table or column is added, or changes its meaning, its name or its dtype, or how a file holds it.
SCHEMA_VERSION = 7

#: The value that a fixed-width buffer uses for "not known"; tables have null instead.
UNKNOWN = -1

#: The error of a launch, and the status of a cell, that had begun and not ended when its process died.
UNFINISHED = "unfinished"


# Texts of the columns that hold names too.

#: The frameworks that have a probe, and what stands for kernels of which no probe knows.
_FRAMEWORKS = ("numba-cuda", "cuda.core", "cuda.compute", "numba-cuda-mlir", "quadrants", "triton", "torch.compile",
               "cutile", "cupy", "jax", "warp", "cute", "simulator", "scripted", "driver")
#: What reports on a recording: probes, the recorder and its journal, and the readers of other tools' traces.
_PROBES = (*_FRAMEWORKS, "recorder", "journal", "cupti", "nvtx", "gc", "events", "torch.operators", "dask", "stalls",
           "metrics", "lanes", "nsys", "torch.profiler", "xla", "chrome")
#: Directions of copies; ``copy`` is one whose direction is not known.
_DIRECTIONS = ("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "copy")
_ACTIVITIES = (*_DIRECTIONS, "memset", "event synchronize", "stream synchronize", "context synchronize",
               "synchronize")
_MEMORY = ("pageable", "pinned", "device", "managed", "array", "unknown")
#: Why something was compiled: see `kernelscope.analysis.compiles`.
COMPILE_REASONS = (
    "first_use", "new_dtype", "new_dimensions", "new_layout", "new_access", "new_alignment", "new_scalar",
    "tuple_arity", "optional", "literal", "new_type", "argument_count", "launch_config", "specialize", "forall",
    "eager", "redefined", "recompile", "disk", "disk_unsafe", "cache_absent", "cache_stale", "cache_unwritable",
    "new_device", "new_constexpr", "divisibility", "equal_to_1", "new_option", "new_setting", "new_global", "autotune",
    "static_size", "size_condition", "requires_grad", "new_keys", "new_length", "aliasing", "new_tensor_kind",
    "new_mode", "new_value", "captured_value", "new_attribute", "new_function", "new_object", "freed", "new_backend",
    "graph_break", "backward", "recompile_limit", "wait", "unknown")
#: Why something was built or tuned: see `kernelscope.analysis.builds`.
BUILD_REASONS = (
    "first_use", "new_operator_name", "new_operator_value", "new_operator", "new_dtype", "new_array_type",
    "new_iterator", "new_device", "new_option", "several", "cache_cleared", "wait", "unknown", "new_key", "redefined",
    "disk")
#: Algorithms of cuda.compute; a probe's own library names its algorithms itself.
_ALGORITHMS = (
    "reduce_into", "inclusive_scan", "exclusive_scan", "merge_sort", "radix_sort", "segmented_sort",
    "segmented_reduce", "histogram_even", "unique_by_key", "three_way_partition", "unary_transform",
    "binary_transform", "select", "lower_bound", "upper_bound")
_PASSES = (
    "LiteralPropagation", "PropagateLiterals", "Rewrite dynamic raises", "annotate_types", "canonicalize_loop_entry",
    "canonicalize_loop_exit", "create_library", "cuda_backend", "cuda_native_lowering", "cuda_translate_bytecode",
    "dead_branch_prune", "dead_code_elimination", "extract_bytecode", "find_literally", "fixup_args",
    "generic_rewrites", "inline_closure_likes", "inline_inlinables", "inline_overloads", "ir_legalization",
    "ir_processing", "iter_loop_canonicalisation", "literal_unroll", "make_function_op_code_to_jit_function",
    "mixed_container_unroller", "native_lowering", "nopython_backend", "nopython_rewrites",
    "nopython_supported_feature_validation", "nopython_type_inference", "partial_type_inference", "preserve_ir",
    "print_ir_cfg", "reconstruct_ssa", "rewrite_semantic_constants", "simplify_cfg", "strip_phis",
    "transform_literal_unroll_const_list_to_tuple", "translate_bytecode", "with_lifting",
    "mlir", "nvvm", "lto", "link", "load", "front end", "code",
    "mlir_type_inference", "mlir_backend", "numba_cuda_mlir_inline_inlinables", "numba_cuda_mlir_literal_unroll",
    "post_inline_whole_function_planners",
    "ir_initialization", "ttir", "ttgir", "llir", "ptx", "cubin", "store_results",
    "dynamo", "guards", "AOTAutograd", "graph passes", "partition", "inductor", "lowering", "code generation",
    "Triton and C++", "cache load",
    "nvrtc", "nvcc", "tileiras", "trace", "lower to StableHLO", "XLA", "clang", "compile")
#: Stall reasons by CUPTI's names.
_STALLS = (
    "barrier", "branch_resolving", "dispatch_stall", "drain", "gmma", "imc_miss", "lg_throttle", "long_scoreboard",
    "math_pipe_throttle", "membar", "mio_throttle", "misc", "no_instructions", "not_selected", "selected",
    "short_scoreboard", "sleeping", "tex_throttle", "wait", "warpgroup_arrive")


_LINE = _id("line_id", "The line of the user's code that made it: the innermost on its thread; null where none is "
            "known.", nullable=True)
_STACK = _id("stack_id", "The innermost frame of the Python call path that made it; null where call paths were not "
             "recorded, and where none is known.", nullable=True)
_OPERATOR = _id("operator_id", "The operator of PyTorch's that was innermost on its thread; null where none was, and "
                "where operators were not recorded.", nullable=True)
_PROCESS = _id("process_id", "The process; null in files of older versions, which do not say.", nullable=True)
_ATTRIBUTES = _text("attributes", "What only this framework has, as a JSON object.")

_TABLES = (
    Table("processes", "one process that was recorded", (
        _id("process_id", "Row number."),
        _text("host", "The name of its machine; a file of one process on its own leaves it out."),
        _handle("pid", "The system's number of it.", nullable=True),
        _handle("parent_pid", "That of the process that started it.", nullable=True),
        _count("rank", "Its rank among all processes of its job, as the launcher says."),
        _count("local_rank", "Its rank among those of its machine."),
        _text("worker", "Its name as a worker, such as that of a Dask worker."),
        _enumeration("launcher", dict.fromkeys((
            "torchrun", "mpi", "slurm", "ipyparallel", "dask", "multiprocessing", "subprocess"), ""),
            lead="What started it: ", end="; null for a process on its own", nullable=True),
        _text("gpu_uuid", "The GPU that it was given, or the only one that it used; null where it used several, and "
              "where that is not known."),
        _time("start_ns", "When KernelScope was first used in it: with the pid, what tells processes apart.",
              nullable=True),
        _time("end_ns", "The last that is known of it.", nullable=True),
        _enumeration("status", {
            "ok": "", "terminated": "by SIGTERM or SIGHUP, after it had written its file",
            "killed": "recovered from its journal after it had died, or was replaced by exec",
            "cut off": "its file is damaged, and part of it is there",
            UNFINISHED: "it was still recording when it was read"}),
        _text("message", "What is not so with it, in one line."),
        Column("clock_offset_ns", "int64", "What was added to its times to bring them to the recording's clock, at its "
               "start; null where nothing was measured.", unit="ns", nullable=True, low=-MAX_TIME_NS,
               high=MAX_TIME_NS),
        _duration("clock_bound_ns", "How far its times can be off after that; null where nothing is known of it.",
                  nullable=True),
        Column("clock_drift_ppb", "int64", "By how much more is added later: nanoseconds a second.", nullable=True,
               low=-10**9, high=10**9),
        _amount("own_cost_ns", "What recording cost in it: `total_cost_ns` of its rows of `health`, added up."),
    ), since=5),
    Table("cells", "one run of one cell, or of one `record()` block", (
        _id("cell_id", "Row number."),
        _count("execution_count", "The notebook's number of the run, In [n]; null outside a notebook."),
        _text("name", "The name given by the user."),
        _time("start_ns", "When recording of the cell began."),
        _time("end_ns", "When the cell's code had ended, before the device was synchronized; of an unfinished one the "
              "last that is known of it."),
        _time("synchronized_ns", "When the device was synchronized; null where it was not.", nullable=True),
        _enumeration("status", {"ok": "", "error": "", "interrupted": "", UNFINISHED: "its process died in it"}),
        _text("error", "Type and message of the exception that ended the cell."),
        _text("source", "The cell's source text."),
        _text("source_sha256", "SHA-256 of the source text, hexadecimal."),
        Column("reference_ns", "float64", "How long a fixed piece of Python took just before and just after, the mean: "
               "how fast the processor was. Null where it was not timed.", nullable=True, low=0, high=MAX_TIME_NS,
               unit="ns"),
        _PROCESS,
    )),
    Table("threads", "one host thread that launched, compiled, made an NVTX range or collected garbage", (
        _id("thread_id", "Row number."),
        _handle("ident", "Python's `threading.get_ident()` of it."),
        _text("name", "Python's name of the thread.", values=("MainThread",)),
        _PROCESS,
    )),
    Table("lines", "one line of the user's code that launched, compiled, or made a range or an event of a graph, or of "
          "any code that is in a recorded call path", (
        _id("line_id", "Row number."),
        _text("file", "The file; of a notebook's cell In[n], of code without a file such as <stdin>.", nullable=False,
              is_path=True),
        _id("cell_id", "The recorded cell whose source it is a line of; null for files and for other cells.",
            nullable=True),
        _count("line", "The line's number, from 1; of a call of several lines that on which the call begins.",
               nullable=False),
        _text("function", "The function that it is in, as `Class.method`; null outside of functions."),
        _text("text", "The line itself, its first 400 letters, as the file had it when recording stopped; null where "
              "that is not known. A recorded cell's is in its source too."),
        Column("user_code", "bool", "Whether it is the user's code; null in files of older versions, whose lines all "
               "are.", nullable=True),
    ), since=3),
    Table("stacks", "one frame of a call path, or of several that are the same up to it", (
        _id("stack_id", "Row number; a frame stands after the one that called it."),
        _id("parent_stack_id", "The frame that called it; null for the outermost of a path, which is the user's.",
            nullable=True),
        _id("line_id", "The line that the frame was at."),
    ), since=4),
    Table("operators", "one of PyTorch's operators, or a range of `record_function`, inside of the same others and in "
          "one cell, of those that gave the GPU work", (
        _id("operator_id", "Row number."),
        _text("name", "As PyTorch calls it, such as aten::addmm.", nullable=False),
        _text("path", "The names of the operators around it, the outermost first, and its own, joined by ` / `; of "
              "more than 32 the first and the last, and between them how many more there are.", nullable=False),
        _count("calls", "How often it was called.", nullable=False),
        _duration("host_ns", "Host time of these calls, what they call included."),
        _duration("own_ns", "The same without the operators that they call."),
        _id("cell_id", "The cell that it was called in; null between cells.", nullable=True),
        _PROCESS,
    ), since=6),
    Table("devices", "one CUDA device that was launched on", (
        _id("device_id", "Row number."),
        _count("ordinal", "CUDA's ordinal of the device, in the first process that launched on it."),
        _text("uuid", "The driver's UUID of it, such as GPU-1c..., the same in every process."),
        _text("name", "The driver's name of it."),
        _text("compute_capability", "Such as 9.0."),
        _count("multiprocessors", "Streaming multiprocessors (SMs)."),
        _count("max_threads_per_multiprocessor", "Resident threads an SM holds at most."),
        _count("max_blocks_per_multiprocessor", "Resident blocks an SM holds at most."),
        _count("registers_per_multiprocessor", "Registers of an SM, of 32 bits each."),
        _bytes("shared_per_multiprocessor_bytes", "Shared memory of an SM."),
        _bytes("reserved_shared_bytes", "Shared memory of each block that the driver keeps for itself."),
        Column("copy_bytes_per_second", "float64", "What a copy on the device reached, read plus written; null where "
               "it was not measured.", nullable=True, low=0, high=MAX_TIME_NS),
    )),
    Table("dispatchers", "one kernel function with its compile options", (
        _id("dispatcher_id", "Row number."),
        _word("framework", f"{', '.join(_FRAMEWORKS[:-2])}, or what a probe names itself; {_FRAMEWORKS[-1]} for a "
              "kernel that no probe knows.", _FRAMEWORKS),
        _text("name", "The function's qualified Python name; of a kernel in C++ its name without scopes.",
              nullable=False),
        _text("module", "The module that defines it; of a kernel that no probe knows its library, such as PyTorch, as "
              "its name tells."),
        _text("filename", "The file, or the notebook cell, that defines it.", is_path=True),
        _count("lineno", "First line of the definition in that file."),
        _text("arguments", "Names of the function's arguments in order, as in `x, y, n`."),
        _text("options", "Compile options given by the user, as a JSON object."),
        _text("code_sha256", "SHA-256 of the function's bytecode, constants and names: equal for equal code."),
        _text("attributes", "What only this framework has, as a JSON object. Of numba's kernels `owner`, whose code it "
              "is: user, ufunc (of vectorize or guvectorize), reduce (of cuda.reduce), or library (of an installed "
              "package, the framework included); and `function`, the name of the ufunc or of what reduces."),
    )),
    Table("specializations", "one compiled overload of a dispatcher", (
        _id("specialization_id", "Row number."),
        _id("dispatcher_id", "The dispatcher it belongs to."),
        _text("signature", "Argument types, as the framework prints them.", nullable=False),
        _text("compute_capability", "What it was compiled for, such as 9.0."),
        _count("regs", "Registers a thread, from the driver."),
        _bytes("static_shared_bytes", "Shared memory a block, declared in the kernel, from the driver."),
        _bytes("local_bytes", "Local memory a thread, from the driver."),
        _bytes("const_bytes", "Constant memory, from the driver."),
        _bytes("spill_store_bytes", "Registers stored to local memory for want of registers, bytes a thread over all "
               "such instructions in the machine code, as `ptxas -v` counts them."),
        _bytes("spill_load_bytes", "The same for loads back."),
        _count("max_threads", "Threads a block at most, from the driver."),
        Column("launch_config_sensitive", "bool", "Whether it depends on the launch configuration (LC-S).",
               nullable=True),
        _text("launch_config", "The launch configuration it is bound to (LC-S), as a JSON object."),
        _bytes("cubin_bytes", "Size of the machine code."),
        _enumeration("origin", {"compiled": "", "disk": "", "before": "it was there when recording began"},
                     lead="How it came to be: "),
        _text("entry_name", "The kernel's mangled name in the machine code."),
        _ATTRIBUTES,
    )),
    Table("configurations", "one distinct launch configuration", (
        _id("configuration_id", "Row number."),
        *(_count(f"griddim_{axis}", f"Blocks along {axis}; null where a framework hides it.") for axis in "xyz"),
        *(_count(f"blockdim_{axis}", f"Threads a block along {axis}; null likewise.") for axis in "xyz"),
        *(_count(f"cluster_{axis}", f"Blocks a cluster along {axis}; null without clusters.") for axis in "xyz"),
        _bytes("sharedmem_bytes", "Dynamic shared memory a block; null likewise."),
        _handle("stream", "The stream's handle; 0 is the default stream. Streams of two devices may have the same: "
                "`launches.device_id` tells them apart.", nullable=True),
    )),
    Table("occupancies", "one specialization under one launch configuration on one device", (
        _id("specialization_id", "The specialization."),
        _id("configuration_id", "The launch configuration."),
        _id("device_id", "The device."),
        _count("active_blocks_per_multiprocessor", "Blocks an SM holds at once, from the driver."),
        Column("occupancy", "float64", "Resident threads over the most that an SM holds.", nullable=True,
               low=0, high=1),
    )),
    Table("launches", "one launch of one kernel, or one call of an algorithm that launches several", (
        _long_id("launch_id", "Row number; rows are in order of start_ns."),
        _id("cell_id", "The cell that ran; null between cells.", nullable=True),
        _long_id("parent_launch_id", "The launch inside which this one was made.", nullable=True),
        _id("thread_id", "The host thread."),
        _LINE,
        _STACK,
        _OPERATOR,
        _id("dispatcher_id", "The kernel function."),
        _id("specialization_id", "The overload that ran; null where it failed before one was found.", nullable=True),
        _id("configuration_id", "The launch configuration."),
        _id("device_id", "The device; null where none was reached.", nullable=True),
        *(_time(field.name, field.meaning, nullable=field.name != RECORD_TIMES[0])
          for field in LAUNCH_RECORD if field.name in RECORD_TIMES),
        _duration("compile_ns", "Time in compiles, disk-cache loads, and waits for a compile of another thread inside "
                  "dispatch; 0 for a memory hit.", nullable=True),
        _enumeration("cache", {"memory": "", "disk": "", "compiled": "", "wait": "another thread was compiling it"},
                     lead="Where the specialization came from: ", end="; null where unknown", nullable=True),
        _id("compilation_id", "The compile or disk load inside this launch.", nullable=True),
        _handle("correlation_id", "CUPTI's correlation id of the driver call, unique in its process.",
                nullable=True),
        _duration("queue_ns", "From the end of submit to the kernel's start on the GPU: 0 where it started "
                  "before the call returned; null where the GPU was not recorded.", nullable=True),
        _duration("execute_ns", "How long the kernel, or all kernels of the call, ran on the GPU; null where "
                  "that was not recorded.", nullable=True),
        _duration("gc_ns", "Of the launch, in Python's garbage collections on its thread, whatever the phase; null "
                  "where they were not recorded, and in a recovered journal.", nullable=True),
        _word("error", f"Type of the exception that the launch raised; {UNFINISHED} where its process died in it.",
              (UNFINISHED,), nullable=True),
        _id("capture_event_id", "The capture that it went into: it was recorded as a node and did not run; null for a "
            "launch that ran.", nullable=True),
        _id("graph_node_id", "The node that it became in that capture's graph.", nullable=True),
        _id("build_id", "The tuning run whose benchmark made it; null for the program's own launches.", nullable=True),
    )),
    Table("activities", "one activity of the GPU, or one wait for it", (
        _long_id("activity_id", "Row number; rows are in order of start_ns, an unknown start first."),
        _enumeration("kind", {"kernel": "", "memcpy": "", "memset": "", "sync": "the host waits",
                              "graph": "an executable graph that was traced as a whole, whose kernels and copies are "
                                       "not known"}, lead="Kind of it: "),
        _word("name", "The kernel's readable name; of a copy its direction, such as HtoD; of a wait what for; "
              "of a graph its number.", _ACTIVITIES),
        _word("entry_name", "The kernel's mangled name in the machine code; null for what is no kernel.",
              nullable=True),
        _id("device_id", "The device.", nullable=True),
        _handle("stream", "CUPTI's id of the stream: not the handle of `configurations.stream`.",
                nullable=True),
        _time("start_ns", "When the GPU began it, on the host clock; null where it was not measured.", nullable=True),
        _time("end_ns", "When the GPU had ended it, on the host clock; null where it was not measured.",
              nullable=True),
        _long_id("launch_id", "The launch that made it; null for what no probe of a framework recorded.",
                 nullable=True),
        _id("specialization_id", "The recorded specialization that it ran; null for other kernels.", nullable=True),
        _id("configuration_id", "The launch configuration of a kernel; its stream is null where no launch says it.",
            nullable=True),
        _count("regs", "Registers a thread of a kernel."),
        _id("cell_id", "The cell that ran when the host made the call; null between cells.", nullable=True),
        _id("thread_id", "The host thread that made the call.", nullable=True),
        _LINE,
        _STACK,
        _OPERATOR,
        _word("api", "The driver or runtime call that started it, such as cuLaunchKernelEx.", nullable=True),
        _time("submit_start_ns", "That call began.", nullable=True),
        _time("submit_end_ns", "That call returned.", nullable=True),
        _handle("correlation_id", "CUPTI's correlation id, unique in its process: all that one call asked "
                "for has the same, such as the nodes of a graph.", nullable=True),
        _bytes("size_bytes", "Bytes copied or set."),
        _word("memory", "Kinds of memory that a copy was between, or that was set, as in `pageable to device`: "
                        f"{', '.join(_MEMORY)}.",
              (*_MEMORY, *map(" to ".join, itertools.product(_MEMORY, repeat=2))), nullable=True),
        _id("graph_event_id", "The graph launch that it is part of; null outside of graphs.", nullable=True),
        _id("graph_node_id", "The graph's node that it is a run of; null where the graph was not seen being built.",
            nullable=True),
        _handle("cupti_graph_id", "CUPTI's id of the executable graph that it is part of; null outside of "
                "graphs.", nullable=True),
        _handle("cupti_node_id", "CUPTI's id of the executable graph's node.", nullable=True),
        _PROCESS,
    )),
    Table("api_calls", "one driver or runtime call that mattered and made no activity", (
        _long_id("api_call_id", "Row number; rows are in order of start_ns."),
        _id("cell_id", "The cell that ran; null between cells.", nullable=True),
        _id("thread_id", "The host thread."),
        _word("name", "The function of the driver or the runtime, such as cuMemAlloc_v2."),
        _time("start_ns", "It was called."),
        _time("end_ns", "It returned."),
        _handle("correlation_id", "CUPTI's correlation id, unique in its process.", nullable=True),
        _count("result", "What it returned: 0 is success."),
    )),
    Table("compilations", "one compile, or one load from the disk cache", (
        _id("compilation_id", "Row number; rows are in order of start_ns."),
        _id("dispatcher_id", "The kernel function."),
        _id("specialization_id", "What came of it; null where it failed.", nullable=True),
        _id("cell_id", "The cell that ran; null between cells.", nullable=True),
        _id("thread_id", "The host thread."),
        _LINE,
        _STACK,
        _long_id("launch_id", "The launch that needed it; null for eager signatures.", nullable=True),
        _id("configuration_id", "The launch configuration seen while compiling.", nullable=True),
        _enumeration("trigger", {
            "launch": "", "eager": "a signature in the decorator", "specialize": "", "recompile": "",
            "device": "another device's code for a specialization that there was", "compile": ""}),
        _text("signature", "The requested argument types.", nullable=False),
        _time("start_ns", "When it was requested; the launch's own start where a probe cannot see it."),
        _time("end_ns", "When it was done or had failed; null where a probe cannot see it.", nullable=True),
        _duration("wait_ns", "Of that, waiting for numba's compiler lock; null where unknown.",
                  nullable=True),
        _enumeration("outcome", {
            "compiled": "", "disk": "", "wait": "another thread had compiled it meanwhile", "failed": ""}),
        _word("reason_code", "Why it was needed: see `kernelscope.analysis.compiles`.", COMPILE_REASONS,
              nullable=True),
        _text("reason", "The same as a sentence."),
        _word("argument", "The Python name of the argument whose type made it necessary; null where none did.",
              nullable=True),
        _text("nearest_signature", "The known argument types that it was compared with."),
        _text("fix", "What would avoid it."),
        Column("launch_config_sensitive", "bool", "Whether the result depends on the launch configuration.",
               nullable=True),
        _text("cache_file", "The disk cache's index file; null without cache=True.", is_path=True),
        _text("cache_data_file", "The disk cache's data file that it was loaded from or written to.", is_path=True),
        _text("cache_key", "The disk cache's key of it."),
        Column("lcs_marker", "bool", "Whether the disk cache has an .lcs marker for the kernel.", nullable=True),
        _text("error", "Type and message of the exception that it raised."),
        _ATTRIBUTES,
    )),
    Table("builds", "one request to a library's build cache, such as that of cuda.compute, or one run of an "
          "autotuner", (
        _id("build_id", "Row number; rows are in order of start_ns."),
        _id("cell_id", "The cell that ran; null between cells.", nullable=True),
        _id("thread_id", "The host thread."),
        _long_id("launch_id", "The call that requested it; null for a request of the algorithm only.",
                 nullable=True),
        _word("framework", "Whose cache it is: cuda.compute, triton (its autotuner), or what a probe names itself.",
              _FRAMEWORKS),
        _word("algorithm", "The requested algorithm, such as reduce_into; of an autotuner the kernel.", _ALGORITHMS),
        _id("dispatcher_id", "The kernel function that an autotuner is of; null for a library's algorithm.",
            nullable=True),
        _text("compute_capability", "What it is built for, such as 9.0."),
        _time("start_ns", "When it was requested."),
        _time("end_ns", "When it was there or had failed; null where a probe cannot see it.", nullable=True),
        _duration("build_ns", "Of that, in the library's compiler and linker; 0 for a hit.",
                  nullable=True),
        _enumeration("outcome", {
            "hit": "", "miss": "it was built, or tuned", "disk": "an earlier tuning was found on disk",
            "wait": "another thread was building it", "failed": ""}, lead="How it went: "),
        _text("key_parts", "The cache key's parts by name, as a JSON object of texts; of an autotuner the values of "
              "the arguments that its key names, and the arrays' dtypes."),
        _id("nearest_build_id", "The known build that a miss differs least from.", nullable=True),
        _text("differing_parts", "Names of the key's parts that differ from that one's, as in `operator, dtype`."),
        _word("reason_code", "Why it was a miss: see `kernelscope.analysis.builds`.", BUILD_REASONS, nullable=True),
        _text("reason", "The same as a sentence."),
        _text("fix", "What would avoid it."),
        _bytes("cubin_bytes", "Size of the machine code that was built."),
        _text("error", "Type and message of the exception that it raised."),
        _text("attributes", "What only this framework has, as a JSON object. Of an autotuner `configurations` that "
              "were tried, each with `arguments`, `options`, `ms` (null where it failed) and `error`; the place of the "
              "`best` among them; those that were `pruned`."),
    )),
    Table("graphs", "one CUDA graph: a set of nodes and edges with its launch configurations and sizes", (
        _id("graph_id", "Row number."),
        _text("fingerprint", "SHA-256 of everything below but pointers and scalar arguments: equal for equal graphs.",
              nullable=False),
        _text("topology", "SHA-256 of the nodes' kinds, kernels and edges only: graphs of one topology can be updated "
              "into each other.", nullable=False),
        _count("nodes", "Nodes, those of child graphs and conditional bodies included.", nullable=False),
        _count("edges", "Edges, likewise.", nullable=False),
        _ATTRIBUTES,
    )),
    Table("graph_nodes", "one node of a graph, of a child graph in it, or of a conditional node's body", (
        _id("graph_node_id", "Row number; the nodes of one graph are one after the other, a node's body after it."),
        _id("graph_id", "The graph."),
        _id("parent_node_id", "The child-graph or conditional node that it is inside of; null at the top.",
            nullable=True),
        _count("body", "Which of that node's bodies it is in, from 0; null at the top."),
        _enumeration("kind", dict.fromkeys((
            "kernel", "memcpy", "memset", "host", "empty", "event_record", "event_wait", "child", "if", "while",
            "switch", "mem_alloc", "mem_free", "other"), ""), lead="Kind of it: "),
        _text("name", "A kernel's readable name, a copy's direction such as HtoD, a host function's name.",
              _ACTIVITIES),
        _text("entry_name", "A kernel's mangled name in the machine code."),
        _id("specialization_id", "The recorded specialization of that name; null for other kernels.", nullable=True),
        _id("configuration_id", "A kernel's launch configuration, without a stream.", nullable=True),
        _bytes("size_bytes", "Bytes copied, set or allocated."),
        _ATTRIBUTES,
    )),
    Table("graph_edges", "one dependency between two nodes of one graph", (
        _id("graph_id", "The graph."),
        _id("from_node_id", "The node that comes first."),
        _id("to_node_id", "The node that waits for it."),
        _ATTRIBUTES,
    )),
    Table("graph_events", "one event in the life of a graph", (
        _id("graph_event_id", "Row number; rows are in order of start_ns, an unknown start first."),
        _id("cell_id", "The cell that ran; null between cells.", nullable=True),
        _id("thread_id", "The host thread; null where it is not known.", nullable=True),
        _LINE,
        _enumeration("kind", {
            "capture": "begin to end", "define": "a definition was created", "instantiate": "", "update": "",
            "upload": "", "launch": "", "close": "",
            "before": "the executable graph was there when recording began"}, lead="Kind of it: "),
        _id("graph_id", "The graph; null where it was not seen being built.", nullable=True),
        _id("exec_id", "The executable graph, as the event instantiate or before that it came from; null for capture "
            "and define.", nullable=True),
        _id("source_event_id", "Of instantiate and update: the capture or define that made the definition.",
            nullable=True),
        _handle("stream", "Handle of the stream; 0 is the default stream.", nullable=True),
        _time("start_ns", "The call was entered; of a capture, when it began; null for before, and for a capture that "
              "began before recording did.", nullable=True),
        _time("end_ns", "The call returned; of a capture, when it ended; null where that was not seen.", nullable=True),
        _word("api", "The function of the driver that was called, such as cuGraphInstantiateWithParams.",
              nullable=True),
        _enumeration("outcome", {"ok": "", "refused": "an update that the driver would not make", "failed": ""},
                     lead="What came of it: "),
        _text("error", "The driver's name of what went wrong, and of an update where."),
        _id("rebuild_of", "Of instantiate: the earlier instantiate of the same topology, which could have been reused "
            "or updated; null where it is no rebuild.", nullable=True),
        _enumeration("change", {
            "none": "", "arguments": "pointers and scalars",
            "configuration": "launch configurations, sizes, kernels' attributes", "topology": ""},
            lead="What differs from that one, or of an update from before it: ", nullable=True),
        _text("changes", "The same as text, as in `grid of axpy 4 to 8; argument 1 of axpy`."),
        _duration("queue_ns", "Of launch: from the call's return to the first node's start on the GPU; 0 where "
                  "it started before.", nullable=True),
        _duration("execute_ns", "Of launch: from the first node's start to the last one's end on the GPU.",
                  nullable=True),
        _handle("correlation_id", "CUPTI's correlation id of the call.", nullable=True),
        _ATTRIBUTES,
        _PROCESS,
    )),
    Table("passes", "one compiler pass or link phase", (
        _id("compilation_id", "The compile it belongs to; null for a module loaded later.", nullable=True),
        _id("specialization_id", "The specialization, where the phase belongs to one.", nullable=True),
        _enumeration("kind", {"pass": "numba's pipeline", "phase": "mlir, nvvm, lto, link, load"}),
        _word("name", "The pass's or phase's name.", _PASSES),
        _time("start_ns", "When it began; null for passes, whose framework keeps durations only.", nullable=True),
        _duration("duration_ns", "How long it took, phases inside it included."),
        _PROCESS,
    )),
    Table("code", "one text of code, recorded only on request", (
        _id("dispatcher_id", "The kernel function."),
        _id("specialization_id", "The specialization; null for the function's source.", nullable=True),
        _enumeration("kind", {
            "source": "", "functions": "the source of those that it calls, as JSON",
            "types": "Numba's inferred types, as JSON", "mlir": "", "ttir": "Triton's MLIR", "ttgir": "likewise",
            "llvm": "", "ptx": "", "sass": "", "cubin": "the machine code itself, in base64"}, lead="Kind of it: "),
        _text("text", "The text itself.", nullable=False),
        _count("lineno", "Of source: the line in its file that the text begins with."),
        _ATTRIBUTES,
    )),
    Table("ranges", "one NVTX range or mark", (
        _id("range_id", "Row number; rows are in order of start_ns, an unknown start first."),
        _id("cell_id", "The cell that ran when it started; null between cells.", nullable=True),
        _id("thread_id", "The host thread that started it."),
        _LINE,
        _id("parent_range_id", "The push/pop range that was innermost on that thread then; null for start/end ranges.",
            nullable=True),
        _text("name", "Its message; empty where it was given none.", nullable=False),
        _word("domain", "The domain's name; null for the default domain, and for a Domain object that was made before "
                        "recording began.", nullable=True),
        _word("category", "The category's name or number.", nullable=True),
        _word("color", "The color as #rrggbb; null where none was given.", nullable=True),
        _text("payload", "The payload as text: numbers in full, of arrays the type and shape."),
        _enumeration("kind", {"push_pop": "", "start_end": "", "mark": ""}, lead="Kind of it: "),
        _enumeration("source", {"python": "nvtx's Python functions", "native": "NVTX's C interface"},
                     lead="Where it was seen: "),
        _time("start_ns", "When it was opened; null where that was before recording began.", nullable=True),
        _time("end_ns", "When it was closed; null where it was open when recording ended.", nullable=True),
        _count("depth", "Push/pop ranges around it on its thread; 0 for start/end ranges.", nullable=False),
    )),
    Table("collections", "one collection of Python's garbage collector", (
        _id("collection_id", "Row number; rows are in order of start_ns."),
        _id("cell_id", "The cell that ran when it began; null between cells.", nullable=True),
        _id("thread_id", "The host thread that it ran on."),
        _time("start_ns", "When it began: before the first object was looked at."),
        _time("end_ns", "When it was done, finalizers and callbacks of weak references included."),
        _count("generation", "The oldest generation that it looked at: 0, 1 or 2; 2 is all objects."),
        _count("collected", "Objects that it found unreachable and freed."),
        _count("uncollectable", "Objects that it found unreachable and could not free."),
    ), since=2),
    Table("pc_samples", "the samples of one instruction of a kernel with one stall reason, recorded only on request", (
        _word("name", "The kernel's readable name."),
        _word("entry_name", "Its mangled name in the machine code.", nullable=True),
        _id("specialization_id", "The recorded specialization that it is; null for other kernels.", nullable=True),
        _id("device_id", "The device.", nullable=True),
        _id("cell_id", "The cell that ran; null where several were recorded at once.", nullable=True),
        _long_id("launch_id", "The launch; null where kernels were not run one by one, which is the default.",
                 nullable=True),
        Column("pc_offset", "int64", "Where the instruction is: bytes from the first one of its function.", low=0,
               high=MAX_TIME_NS),
        _word("reason", "Why the warp did not go on, by CUPTI's name without what all have in common: long_scoreboard, "
                        "barrier, and so on; selected where it did.", _STALLS),
        _count("samples", "How many samples of it were taken.", nullable=False),
        _count("not_issued", "How many of these in cycles in which the scheduler issued no instruction of any warp."),
        _PROCESS,
    ), since=7),
    Table("measurements", "one launch of a kernel that was measured with the GPU's counters, under replay", (
        _id("measurement_id", "Row number."),
        _word("name", "The kernel's readable name."),
        _word("entry_name", "Its mangled name in the machine code.", nullable=True),
        _id("specialization_id", "The recorded specialization that it is; null for other kernels.", nullable=True),
        _id("configuration_id", "The launch configuration; null for other kernels.", nullable=True),
        _id("device_id", "The device.", nullable=True),
        _id("cell_id", "The cell that ran; null between cells.", nullable=True),
        _long_id("launch_id", "The launch; null where it was not recorded.", nullable=True),
        _count("number", "Which launch of that kernel it was, from 0, counted since measuring began.", nullable=False),
        _enumeration("replay", {"kernel": "", "user": ""}, lead="How the launch was repeated: "),
        _text("metric_set", "basic, roofline, memory or full; or the names of the metrics as they were asked for.",
              ("basic", "roofline", "memory", "full"), nullable=False),
        _count("passes", "How often the launch ran, each time for other metrics.", nullable=False),
        _time("start_ns", "When the first pass began."),
        _time("end_ns", "When the last pass was over."),
        _PROCESS,
    ), since=7),
    Table("metrics", "one metric of one measured launch", (
        _id("measurement_id", "The measured launch."),
        _count("pc_offset", "Bytes from the kernel's first instruction, of what one instruction did; null for the "
                            "whole launch."),
        _word("name", "The metric, as Nsight Compute names it: dram__bytes.sum."),
        Column("value", "float64", "Its value; null where it could not be had.", nullable=True, low=0,
               high=MAX_TIME_NS),
        _word("unit", "Its unit, such as byte, ns, inst or %.", nullable=True),
    ), since=7),
    Table("pm_samples", "one metric of a device over one short interval, recorded only on request", (
        _id("device_id", "The device: all that it did counts, also what other processes had it do.", nullable=True),
        _id("cell_id", "The cell that ran, or whose work was waited for, when it began; null between cells.",
            nullable=True),
        _word("name", "The metric, as Nsight Compute names it: sm__cycles_active.avg.pct_of_peak_sustained_elapsed."),
        _time("start_ns", "When the interval began."),
        _time("end_ns", "When it ended."),
        Column("value", "float64", "Its value; null where samples of this time were lost.", nullable=True, low=0,
               high=MAX_TIME_NS),
        _PROCESS,
    ), since=7),
    Table("health", "one fact about the recording itself", (
        _word("probe", "The probe, or recorder.", _PROBES),
        _enumeration("status", {"ok": "", "degraded": "part of it is missing", "unavailable": "", "failed": ""}),
        _text("message", "What is so, in one line."),
        _text("fix", "What to do about it."),
        _count("dropped", "Records known to be lost."),
        _count("errors", "Exceptions of KernelScope's own that were counted and swallowed."),
        _amount("clock_error_ns", "How far the GPU's times can be off on the host clock."),
        _amount("cost_ns", "Cost of recording one launch, calibrated or estimated."),
        _amount("total_cost_ns", "The cost of one launch, or of one range, times their number."),
        _PROCESS,
    )),
)

#: Every table by name, in the order in which documents list them.
TABLES: dict[str, Table] = {table.name: table for table in _TABLES}


class Metadatum(NamedTuple):
    """One key of a recording's metadata.

    Attributes
    ----------
    key : str
        Where it is: ``clock.host_ns`` is in the mapping ``clock``; ``*`` stands for each key of a mapping.
    kind : str
        ``integer``, ``number``, ``boolean``, ``text``, ``list of texts``, ``list`` or ``mapping``.
    meaning : str
        One sentence for the reference.
    nullable : bool
        Whether it may be null; every key may be missing.
    low, high : int or None
        The least and the most that its number may be. A file with another one is refused.
    """

    key: str
    kind: str
    meaning: str
    nullable: bool = False
    low: int | None = None
    high: int | None = None


def _instant(key: str, meaning: str) -> Metadatum:
    """Return a key of an instant, in nanoseconds."""
    return Metadatum(key, "integer", meaning, low=-MAX_TIME_NS, high=MAX_TIME_NS)


def _number(key: str, meaning: str, high: int, *, low: int = 0, nullable: bool = False,
            kind: str = "integer") -> Metadatum:
    """Return a key of a count, or of another number."""
    return Metadatum(key, kind, meaning, nullable, low, high)


#: The keys of the metadata that KernelScope writes and reads, in the order of the reference. Other keys may hold
#: whatever JSON can hold.
METADATA = (
    Metadatum("name", "text", "The name of the recording.", nullable=True),
    Metadatum("created", "text", "When it was made: ISO, in UTC.", nullable=True),
    _number("schema_version", "The schema's version when it was made.", MAX_COUNT),
    Metadatum("detail", "text", "How much is recorded of a launch: launch or phases."),
    Metadatum("dry_run", "boolean", "Whether there was no GPU behind it."),
    Metadatum("simulator", "boolean", "Whether numba's simulator ran kernels."),
    Metadatum("code", "boolean", "Whether the kernels' code was recorded."),
    Metadatum("redacted", "boolean", "Whether source, code and names were taken out."),
    _number("merged", "How many recordings it was merged from.", MAX_COUNT),
    Metadatum("python", "text", "Python's version.", nullable=True),
    Metadatum("platform", "text", "The operating system, its version, the processor's architecture and the C library.",
              nullable=True),
    _number("cpus", "Processors of the machine.", MAX_COUNT, nullable=True),
    Metadatum("driver_version", "text", "The CUDA version of the driver.", nullable=True),
    Metadatum("packages", "mapping", "Versions of packages, by name."),
    Metadatum("packages.*", "text", "A version.", nullable=True),
    Metadatum("probes", "list of texts", "The probes that were installed."),
    Metadatum("clock", "mapping", "The host clock."),
    _instant("clock.host_ns", "The host clock at some instant, in ns."),
    _instant("clock.wall_ns", "The wall clock at that instant, in ns since 1970."),
    _number("clock.error_ns", "How far these two can be apart, in ns.", MAX_TIME_NS, nullable=True, kind="number"),
    Metadatum("clock.boot", "text", "The boot of the machine, or the file that times are of: one clock.",
              nullable=True),
    Metadatum("gpu", "mapping", "Where the GPU's times are from; null without any.", nullable=True),
    Metadatum("gpu.source", "text", "The probe: cupti or events."),
    _number("gpu.clock_error_ns", "How far they can be off on the host clock, in ns.", MAX_TIME_NS, nullable=True,
            kind="number"),
    Metadatum("own_cost", "mapping", "How the cost of recording is known, by probe."),
    Metadatum("own_cost.*", "mapping", "How that of a probe is known."),
    Metadatum("own_cost.*.kind", "text", "calibrated, partly calibrated or estimated."),
    Metadatum("own_cost.*.measured", "text", "When it was measured: ISO.", nullable=True),
    _number("own_cost.*.low_ns", "The lower end of its interval, in ns a launch.", MAX_TIME_NS, low=-MAX_TIME_NS,
            nullable=True, kind="number"),
    _number("own_cost.*.high_ns", "The upper end.", MAX_TIME_NS, low=-MAX_TIME_NS, nullable=True, kind="number"),
    Metadatum("own_cost.*.is_seen", "boolean", "Whether a difference was seen."),
    Metadatum("recorder", "mapping", "How launches were kept."),
    Metadatum("recorder.mode", "text", "grow, ring or stop.", nullable=True),
    _number("recorder.capacity", "How many are kept at most; null for all.", MAX_HANDLE, nullable=True),
    _number("recorder.kept", "How many there are.", MAX_HANDLE, nullable=True),
    _number("recorder.lost", "How many were not kept.", MAX_HANDLE, nullable=True),
    Metadatum("process", "mapping", "What is known of the process, by columns of the table `processes`."),
    *(Metadatum(f"process.{column.name}", "text" if column.low is None else
                "number" if column.dtype == "float64" else "integer", column.meaning, True, column.low, column.high)
      for column in TABLES["processes"].columns),
    Metadatum("pings", "mapping", "What its clock was found by: instants of the clock that pinged it and of its own."),
    Metadatum("pings.begin", "list", "Pings when recording began: sent, own, received, in ns."),
    Metadatum("pings.end", "list", "Pings when it ended."),
    Metadatum("pings.boot", "text", "The boot of the machine that pinged.", nullable=True),
    Metadatum("imported", "mapping", "Of a trace of another tool, what it is."),
    Metadatum("imported.from", "text", "The tool."),
    Metadatum("imported.version", "text", "Its version.", nullable=True),
    Metadatum("imported.format", "text", "The trace's format."),
    Metadatum("imported.skipped", "mapping", "How many events were left out, by kind."),
    _number("imported.skipped.*", "How many.", MAX_HANDLE),
    Metadatum("recovered", "mapping", "Of a recovered journal, what was not whole."),
)
