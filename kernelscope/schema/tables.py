"""The core tables: every column with its type, unit, range, redaction and meaning.

This is the contract between the recorder, the file format, the analysis and whoever reads a recording with other tools.
A column that a framework cannot fill is null, never zero; ids are small integers and are row numbers of the table that
they name; times are host-clock nanoseconds (`kernelscope.clock`). What only one framework has goes into an
``attributes`` column of JSON. No table holds an argument's value.
"""

from __future__ import annotations

import itertools

from kernelscope.registry import features, frameworks, importers
from kernelscope.schema.columns import (
    MAX_TIME_NS,
    PROCESS_ID,
    Neutral,
    Table,
    amount,
    count,
    duration,
    enumeration,
    flag,
    handle,
    instant,
    json_text,
    key,
    long_key,
    long_row_id,
    number,
    row_id,
    size,
    text,
    word,
)
from kernelscope.schema.launch_record import LAUNCH_RECORD, RECORD_TIMES

#: Frames of a call path at most, of a deeper one the innermost; a file with a deeper one is refused.
MAX_STACK_FRAMES = 512
#: How much of a launch is recorded: its two ends, or every phase boundary between them.
DETAILS = ("launch", "phases")
#: What a recorder keeps, in the order of a journal's numbers: all launches, the newest, the first.
MODES = ("grow", "ring", "stop")
#: The error of a launch, and the status of a cell, that had begun and not ended when its process died.
UNFINISHED = "unfinished"

#: The frameworks that have a probe, and what stands for kernels of which no probe knows.
_FRAMEWORKS = ("numba-cuda", "cuda.compute", "numba-cuda-mlir", "quadrants", "triton", "torch.compile",
               *(framework.name for framework in frameworks()), "simulator", "scripted", "driver")
#: What reports on a recording: probes, the recorder and its journal, and the readers of other tools' traces.
_PROBES = (*_FRAMEWORKS, "recorder", "journal", "cupti", "nvtx", "gc", "events", "dask",
           *(producer for importer in importers() for producer in importer.producers),
           *(name for feature in features() if feature.probes for name in (feature.name, *feature.reporters)))
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


_LINE = row_id("line_id", "The line of the user's code that made it: the innermost on its thread; null where none is "
               "known.", nullable=True)
_STACK = row_id("stack_id", "The innermost frame of the Python call path that made it; null where call paths were not "
                "recorded, and where none is known.", nullable=True)
_OPERATOR = row_id("operator_id", "The operator of PyTorch's that was innermost on its thread; null where none was, "
                   "and where operators were not recorded.", nullable=True)
_ATTRIBUTES = json_text("attributes", "What only this framework has, as a JSON object.")

PROCESSES = Table("processes", "one process that was recorded", (
    key("process_id", "Row number."),
    text("host", "The name of its machine; a file of one process on its own leaves it out.",
         redaction=Neutral("host")),
    handle("pid", "The system's number of it.", nullable=True),
    handle("parent_pid", "That of the process that started it.", nullable=True),
    count("rank", "Its rank among all processes of its job, as the launcher says."),
    count("local_rank", "Its rank among those of its machine."),
    text("worker", "Its name as a worker, such as that of a Dask worker.", redaction=Neutral("worker")),
    enumeration("launcher", dict.fromkeys((
        "torchrun", "mpi", "slurm", "ipyparallel", "dask", "multiprocessing", "subprocess"), ""),
                lead="What started it: ", end="; null for a process on its own", nullable=True),
    text("gpu_uuid", "The GPU that it was given, or the only one that it used; null where it used several, and "
         "where that is not known.", redaction=Neutral("gpu")),
    instant("start_ns", "When KernelScope was first used in it: with the pid, what tells processes apart.",
            nullable=True),
    instant("end_ns", "The last that is known of it.", nullable=True),
    enumeration("status", {
        "ok": "", "terminated": "by SIGTERM or SIGHUP, after it had written its file",
        "killed": "recovered from its journal after it had died, or was replaced by exec",
        "cut off": "its file is damaged, and part of it is there",
        UNFINISHED: "it was still recording when it was read"}),
    text("message", "What is not so with it, in one line."),
    duration("clock_offset_ns", "What was added to its times to bring them to the recording's clock, at its start; "
             "null where nothing was measured.", nullable=True, low=-MAX_TIME_NS),
    duration("clock_bound_ns", "How far its times can be off after that; null where nothing is known of it.",
             nullable=True),
    number("clock_drift_ppb", "By how much more is added later: nanoseconds a second.", "int64", low=-10**9,
           high=10**9),
    amount("own_cost_ns", "What recording cost in it: `total_cost_ns` of its rows of `health`, added up."),
), since=5)

CORE_TABLES = (
    PROCESSES,
    Table("cells", "one run of one cell, or of one `record()` block", (
        key("cell_id", "Row number."),
        count("execution_count", "The notebook's number of the run, In [n]; null outside a notebook."),
        text("name", "The name given by the user.", redaction=Neutral("cell")),
        instant("start_ns", "When recording of the cell began."),
        instant("end_ns", "When the cell's code had ended, before the device was synchronized; of an unfinished one "
                "the last that is known of it."),
        instant("synchronized_ns", "When the device was synchronized; null where it was not.", nullable=True),
        enumeration("status", {"ok": "", "error": "", "interrupted": "", UNFINISHED: "its process died in it"}),
        text("error", "Type and message of the exception that ended the cell.", redaction="exception"),
        text("source", "The cell's source text."),
        text("source_sha256", "SHA-256 of the source text, hexadecimal."),
        amount("reference_ns", "How long a fixed piece of Python took just before and just after, the mean: "
               "how fast the processor was. Null where it was not timed."),
        PROCESS_ID,
    )),
    Table("threads", "one host thread that launched, compiled, made an NVTX range or collected garbage", (
        key("thread_id", "Row number."),
        handle("ident", "Python's `threading.get_ident()` of it."),
        text("name", "Python's name of the thread.", values=("MainThread",), redaction=Neutral("thread")),
        PROCESS_ID,
    )),
    Table("lines", "one line of the user's code that launched, compiled, or made a range or an event of a graph, or of "
          "any code that is in a recorded call path", (
        key("line_id", "Row number."),
        text("file", "The file; of a notebook's cell In[n], of code without a file such as <stdin>.", nullable=False,
             is_path=True, redaction="source_file"),
        row_id("cell_id", "The recorded cell whose source it is a line of; null for files and for other cells.",
               nullable=True),
        count("line", "The line's number, from 1; of a call of several lines that on which the call begins.",
              nullable=False),
        text("function", "The function that it is in, as `Class.method`; null outside of functions.",
             redaction=Neutral("function")),
        text("text", "The line itself, its first 400 letters, as the file had it when recording stopped; null where "
             "that is not known. A recorded cell's is in its source too."),
        flag("user_code", "Whether it is the user's code; null in files of older versions, whose lines all are."),
    ), since=3),
    Table("stacks", "one frame of a call path, or of several that are the same up to it", (
        key("stack_id", "Row number; a frame stands after the one that called it."),
        row_id("parent_stack_id", "The frame that called it; null for the outermost of a path, which is the user's.",
               nullable=True, of="stacks"),
        row_id("line_id", "The line that the frame was at."),
    ), since=4),
    Table("operators", "one of PyTorch's operators, or a range of `record_function`, inside of the same others and in "
          "one cell, of those that gave the GPU work", (
        key("operator_id", "Row number."),
        text("name", "As PyTorch calls it, such as aten::addmm.", nullable=False, redaction="operator"),
        text("path", "The names of the operators around it, the outermost first, and its own, joined by ` / `; of "
             "more than 32 the first and the last, and between them how many more there are.", nullable=False,
             redaction="operators"),
        count("calls", "How often it was called.", nullable=False),
        duration("host_ns", "Host time of these calls, what they call included."),
        duration("own_ns", "The same without the operators that they call."),
        row_id("cell_id", "The cell that it was called in; null between cells.", nullable=True),
        PROCESS_ID,
    ), since=6),
    Table("devices", "one CUDA device that was launched on", (
        key("device_id", "Row number."),
        count("ordinal", "CUDA's ordinal of the device, in the first process that launched on it."),
        text("uuid", "The driver's UUID of it, such as GPU-1c..., the same in every process.",
             redaction=Neutral("gpu")),
        text("name", "The driver's name of it.", redaction="device"),
        text("compute_capability", "Such as 9.0.", redaction="capability"),
        count("multiprocessors", "Streaming multiprocessors (SMs)."),
        count("max_threads_per_multiprocessor", "Resident threads an SM holds at most."),
        count("max_blocks_per_multiprocessor", "Resident blocks an SM holds at most."),
        count("registers_per_multiprocessor", "Registers of an SM, of 32 bits each."),
        size("shared_per_multiprocessor_bytes", "Shared memory of an SM."),
        size("reserved_shared_bytes", "Shared memory of each block that the driver keeps for itself."),
        number("copy_bytes_per_second", "What a copy on the device reached, read plus written; null where "
               "it was not measured."),
    )),
    Table("dispatchers", "one kernel function with its compile options", (
        key("dispatcher_id", "Row number."),
        word("framework", f"{', '.join(_FRAMEWORKS[:-2])}, or what a probe names itself; {_FRAMEWORKS[-1]} for a "
             "kernel that no probe knows.", _FRAMEWORKS, redaction=Neutral("framework")),
        text("name", "The function's qualified Python name; of a kernel in C++ its name without scopes.",
             nullable=False, redaction=Neutral("kernel")),
        text("module", "The module that defines it; of a kernel that no probe knows its library, such as PyTorch, as "
             "its name tells.", redaction=Neutral("module")),
        text("filename", "The file, or the notebook cell, that defines it.", is_path=True, redaction="file"),
        count("lineno", "First line of the definition in that file."),
        text("arguments", "Names of the function's arguments in order, as in `x, y, n`.", redaction="arguments"),
        json_text("options", "Compile options given by the user, as a JSON object.", redaction="options"),
        text("code_sha256", "SHA-256 of the function's bytecode, constants and names: equal for equal code.",
             redaction="hash"),
        json_text("attributes", "What only this framework has, as a JSON object. Of numba's kernels `owner`, whose "
                  "code it is: user, ufunc (of vectorize or guvectorize), reduce (of cuda.reduce), or library (of an "
                  "installed "
                  "package, the framework included); and `function`, the name of the ufunc or of what reduces.",
                  redaction="owner"),
    )),
    Table("specializations", "one compiled overload of a dispatcher", (
        key("specialization_id", "Row number."),
        row_id("dispatcher_id", "The dispatcher it belongs to."),
        text("signature", "Argument types, as the framework prints them.", nullable=False, redaction="types"),
        text("compute_capability", "What it was compiled for, such as 9.0.", redaction="capability"),
        count("regs", "Registers a thread, from the driver."),
        size("static_shared_bytes", "Shared memory a block, declared in the kernel, from the driver."),
        size("local_bytes", "Local memory a thread, from the driver."),
        size("const_bytes", "Constant memory, from the driver."),
        size("spill_store_bytes", "Registers stored to local memory for want of registers, bytes a thread over all "
             "such instructions in the machine code, as `ptxas -v` counts them."),
        size("spill_load_bytes", "The same for loads back."),
        count("max_threads", "Threads a block at most, from the driver."),
        flag("launch_config_sensitive", "Whether it depends on the launch configuration (LC-S)."),
        json_text("launch_config", "The launch configuration it is bound to (LC-S), as a JSON object.",
                  redaction="configuration"),
        size("cubin_bytes", "Size of the machine code."),
        enumeration("origin", {"compiled": "", "disk": "", "before": "it was there when recording began"},
                    lead="How it came to be: "),
        text("entry_name", "The kernel's mangled name in the machine code.", redaction=Neutral("entry")),
        _ATTRIBUTES,
    )),
    Table("configurations", "one distinct launch configuration", (
        key("configuration_id", "Row number."),
        *(count(f"griddim_{axis}", f"Blocks along {axis}; null where a framework hides it.") for axis in "xyz"),
        *(count(f"blockdim_{axis}", f"Threads a block along {axis}; null likewise.") for axis in "xyz"),
        *(count(f"cluster_{axis}", f"Blocks a cluster along {axis}; null without clusters.") for axis in "xyz"),
        size("sharedmem_bytes", "Dynamic shared memory a block; null likewise."),
        handle("stream", "The stream's handle; 0 is the default stream. Streams of two devices may have the same: "
               "`launches.device_id` tells them apart.", nullable=True),
    )),
    Table("occupancies", "one specialization under one launch configuration on one device", (
        row_id("specialization_id", "The specialization."),
        row_id("configuration_id", "The launch configuration."),
        row_id("device_id", "The device."),
        count("active_blocks_per_multiprocessor", "Blocks an SM holds at once, from the driver."),
        number("occupancy", "Resident threads over the most that an SM holds.", high=1),
    )),
    Table("launches", "one launch of one kernel, or one call of an algorithm that launches several", (
        long_key("launch_id", "Row number; rows are in order of start_ns."),
        row_id("cell_id", "The cell that ran; null between cells.", nullable=True),
        long_row_id("parent_launch_id", "The launch inside which this one was made.", nullable=True, of="launches"),
        row_id("thread_id", "The host thread."),
        _LINE,
        _STACK,
        _OPERATOR,
        row_id("dispatcher_id", "The kernel function."),
        row_id("specialization_id", "The overload that ran; null where it failed before one was found.", nullable=True),
        row_id("configuration_id", "The launch configuration."),
        row_id("device_id", "The device; null where none was reached.", nullable=True),
        *(instant(field.name, field.meaning, nullable=field.name != RECORD_TIMES[0])
          for field in LAUNCH_RECORD if field.name in RECORD_TIMES),
        duration("compile_ns", "Time in compiles, disk-cache loads, and waits for a compile of another thread inside "
                 "dispatch; 0 for a memory hit.", nullable=True),
        enumeration("cache", {"memory": "", "disk": "", "compiled": "", "wait": "another thread was compiling it"},
                    lead="Where the specialization came from: ", end="; null where unknown", nullable=True),
        row_id("compilation_id", "The compile or disk load inside this launch.", nullable=True),
        handle("correlation_id", "CUPTI's correlation id of the driver call, unique in its process.",
               nullable=True),
        duration("queue_ns", "From the end of submit to the kernel's start on the GPU: 0 where it started "
                 "before the call returned; null where the GPU was not recorded.", nullable=True),
        duration("execute_ns", "How long the kernel, or all kernels of the call, ran on the GPU; null where "
                 "that was not recorded.", nullable=True),
        duration("gc_ns", "Of the launch, in Python's garbage collections on its thread, whatever the phase; null "
                 "where they were not recorded, and in a recovered journal.", nullable=True),
        word("error", f"Type of the exception that the launch raised; {UNFINISHED} where its process died in it.",
             (UNFINISHED,), nullable=True, redaction="exception"),
        row_id("capture_event_id", "The capture that it went into: it was recorded as a node and did not run; null for "
               "a launch that ran.", nullable=True, of="graph_events"),
        row_id("graph_node_id", "The node that it became in that capture's graph.", nullable=True),
        row_id("build_id", "The tuning run whose benchmark made it; null for the program's own launches.",
               nullable=True),
    ), is_event=True, is_ordered=True),
    Table("activities", "one activity of the GPU, or one wait for it", (
        long_key("activity_id", "Row number; rows are in order of start_ns, an unknown start first."),
        enumeration("kind", {"kernel": "", "memcpy": "", "memset": "", "sync": "the host waits",
                             "graph": "an executable graph that was traced as a whole, whose kernels and copies are "
                             "not known"}, lead="Kind of it: "),
        word("name", "The kernel's readable name; of a copy its direction, such as HtoD; of a wait what for; "
             "of a graph its number.", _ACTIVITIES, redaction="activity"),
        word("entry_name", "The kernel's mangled name in the machine code; null for what is no kernel.",
             nullable=True, redaction=Neutral("entry")),
        row_id("device_id", "The device.", nullable=True),
        handle("stream", "CUPTI's id of the stream: not the handle of `configurations.stream`.",
               nullable=True),
        instant("start_ns", "When the GPU began it, on the host clock; null where it was not measured.", nullable=True),
        instant("end_ns", "When the GPU had ended it, on the host clock; null where it was not measured.",
                nullable=True),
        long_row_id("launch_id", "The launch that made it; null for what no probe of a framework recorded.",
                    nullable=True),
        row_id("specialization_id", "The recorded specialization that it ran; null for other kernels.", nullable=True),
        row_id("configuration_id", "The launch configuration of a kernel; its stream is null where no launch says it.",
               nullable=True),
        count("regs", "Registers a thread of a kernel."),
        row_id("cell_id", "The cell that ran when the host made the call; null between cells.", nullable=True),
        row_id("thread_id", "The host thread that made the call.", nullable=True),
        _LINE,
        _STACK,
        _OPERATOR,
        word("api", "The driver or runtime call that started it, such as cuLaunchKernelEx.", nullable=True,
             redaction="api"),
        instant("submit_start_ns", "That call began.", nullable=True),
        instant("submit_end_ns", "That call returned.", nullable=True),
        handle("correlation_id", "CUPTI's correlation id, unique in its process: all that one call asked "
               "for has the same, such as the nodes of a graph.", nullable=True),
        size("size_bytes", "Bytes copied or set."),
        word("memory", "Kinds of memory that a copy was between, or that was set, as in `pageable to device`: "
             f"{', '.join(_MEMORY)}.",
             (*_MEMORY, *map(" to ".join, itertools.product(_MEMORY, repeat=2))), nullable=True,
             redaction=Neutral("memory")),
        row_id("graph_event_id", "The graph launch that it is part of; null outside of graphs.", nullable=True),
        row_id("graph_node_id", "The graph's node that it is a run of; null where the graph was not seen being built.",
               nullable=True),
        handle("cupti_graph_id", "CUPTI's id of the executable graph that it is part of; null outside of "
               "graphs.", nullable=True),
        handle("cupti_node_id", "CUPTI's id of the executable graph's node.", nullable=True),
        PROCESS_ID,
    ), is_event=True, is_ordered=True),
    Table("api_calls", "one driver or runtime call that mattered and made no activity", (
        long_key("api_call_id", "Row number; rows are in order of start_ns."),
        row_id("cell_id", "The cell that ran; null between cells.", nullable=True),
        row_id("thread_id", "The host thread."),
        word("name", "The function of the driver or the runtime, such as cuMemAlloc_v2.", redaction="api"),
        instant("start_ns", "It was called."),
        instant("end_ns", "It returned."),
        handle("correlation_id", "CUPTI's correlation id, unique in its process.", nullable=True),
        count("result", "What it returned: 0 is success."),
    ), is_event=True, is_ordered=True),
    Table("compilations", "one compile, or one load from the disk cache", (
        key("compilation_id", "Row number; rows are in order of start_ns."),
        row_id("dispatcher_id", "The kernel function."),
        row_id("specialization_id", "What came of it; null where it failed.", nullable=True),
        row_id("cell_id", "The cell that ran; null between cells.", nullable=True),
        row_id("thread_id", "The host thread."),
        _LINE,
        _STACK,
        long_row_id("launch_id", "The launch that needed it; null for eager signatures.", nullable=True),
        row_id("configuration_id", "The launch configuration seen while compiling.", nullable=True),
        enumeration("trigger", {
            "launch": "", "eager": "a signature in the decorator", "specialize": "", "recompile": "",
            "device": "another device's code for a specialization that there was", "compile": ""}),
        text("signature", "The requested argument types.", nullable=False, redaction="types"),
        instant("start_ns", "When it was requested; the launch's own start where a probe cannot see it."),
        instant("end_ns", "When it was done or had failed; null where a probe cannot see it.", nullable=True),
        duration("wait_ns", "Of that, waiting for numba's compiler lock; null where unknown.",
                 nullable=True),
        enumeration("outcome", {
            "compiled": "", "disk": "", "wait": "another thread had compiled it meanwhile", "failed": ""}),
        word("reason_code", "Why it was needed: see `kernelscope.analysis.compiles`.", COMPILE_REASONS,
             nullable=True, redaction=Neutral("reason")),
        text("reason", "The same as a sentence."),
        word("argument", "The Python name of the argument whose type made it necessary; null where none did.",
             nullable=True, redaction=Neutral("unknown_argument")),
        text("nearest_signature", "The known argument types that it was compared with.", redaction="types"),
        text("fix", "What would avoid it."),
        flag("launch_config_sensitive", "Whether the result depends on the launch configuration."),
        text("cache_file", "The disk cache's index file; null without cache=True.", is_path=True,
             redaction=Neutral("cache", ".nbi")),
        text("cache_data_file", "The disk cache's data file that it was loaded from or written to.", is_path=True,
             redaction=Neutral("cache_data", ".nbc")),
        text("cache_key", "The disk cache's key of it.", redaction=Neutral("key")),
        flag("lcs_marker", "Whether the disk cache has an .lcs marker for the kernel."),
        text("error", "Type and message of the exception that it raised.", redaction="exception"),
        json_text("attributes", _ATTRIBUTES.meaning, redaction="compile_attributes"),
    ), is_event=True, is_ordered=True),
    Table("builds", "one request to a library's build cache, such as that of cuda.compute, or one run of an "
          "autotuner", (
        key("build_id", "Row number; rows are in order of start_ns."),
        row_id("cell_id", "The cell that ran; null between cells.", nullable=True),
        row_id("thread_id", "The host thread."),
        long_row_id("launch_id", "The call that requested it; null for a request of the algorithm only.",
                    nullable=True),
        word("framework", "Whose cache it is: cuda.compute, triton (its autotuner), or what a probe names itself.",
             _FRAMEWORKS, redaction=Neutral("framework")),
        word("algorithm", "The requested algorithm, such as reduce_into; of an autotuner the kernel.", _ALGORITHMS,
             redaction=Neutral("algorithm")),
        row_id("dispatcher_id", "The kernel function that an autotuner is of; null for a library's algorithm.",
               nullable=True),
        text("compute_capability", "What it is built for, such as 9.0.", redaction="capability"),
        instant("start_ns", "When it was requested."),
        instant("end_ns", "When it was there or had failed; null where a probe cannot see it.", nullable=True),
        duration("build_ns", "Of that, in the library's compiler and linker; 0 for a hit.",
                 nullable=True),
        enumeration("outcome", {
            "hit": "", "miss": "it was built, or tuned", "disk": "an earlier tuning was found on disk",
            "wait": "another thread was building it", "failed": ""}, lead="How it went: "),
        json_text("key_parts", "The cache key's parts by name, as a JSON object of texts; of an autotuner the values "
                  "of the arguments that its key names, and the arrays' dtypes.", redaction="key_parts"),
        row_id("nearest_build_id", "The known build that a miss differs least from.", nullable=True, of="builds"),
        text("differing_parts", "Names of the key's parts that differ from that one's, as in `operator, dtype`.",
             redaction="part_names"),
        word("reason_code", "Why it was a miss: see `kernelscope.analysis.builds`.", BUILD_REASONS, nullable=True,
             redaction=Neutral("reason")),
        text("reason", "The same as a sentence."),
        text("fix", "What would avoid it."),
        size("cubin_bytes", "Size of the machine code that was built."),
        text("error", "Type and message of the exception that it raised.", redaction="exception"),
        json_text("attributes", "What only this framework has, as a JSON object. Of an autotuner `configurations` that "
                  "were tried, each with `arguments`, `options`, `ms` (null where it failed) and `error`; the place of "
                  "the `best` among them; those that were `pruned`.", redaction="tuning"),
    ), is_event=True, is_ordered=True),
    Table("graphs", "one CUDA graph: a set of nodes and edges with its launch configurations and sizes", (
        key("graph_id", "Row number."),
        text("fingerprint", "SHA-256 of everything below but pointers and scalar arguments: equal for equal graphs.",
             nullable=False, redaction="hash"),
        text("topology", "SHA-256 of the nodes' kinds, kernels and edges only: graphs of one topology can be updated "
             "into each other.", nullable=False, redaction="hash"),
        count("nodes", "Nodes, those of child graphs and conditional bodies included.", nullable=False),
        count("edges", "Edges, likewise.", nullable=False),
        _ATTRIBUTES,
    )),
    Table("graph_nodes", "one node of a graph, of a child graph in it, or of a conditional node's body", (
        key("graph_node_id", "Row number; the nodes of one graph are one after the other, a node's body after it."),
        row_id("graph_id", "The graph."),
        row_id("parent_node_id", "The child-graph or conditional node that it is inside of; null at the top.",
               nullable=True, of="graph_nodes"),
        count("body", "Which of that node's bodies it is in, from 0; null at the top."),
        enumeration("kind", dict.fromkeys((
            "kernel", "memcpy", "memset", "host", "empty", "event_record", "event_wait", "child", "if", "while",
            "switch", "mem_alloc", "mem_free", "other"), ""), lead="Kind of it: "),
        text("name", "A kernel's readable name, a copy's direction such as HtoD, a host function's name.",
             _ACTIVITIES, redaction=Neutral("other_kernel")),
        text("entry_name", "A kernel's mangled name in the machine code.", redaction=Neutral("entry")),
        row_id("specialization_id", "The recorded specialization of that name; null for other kernels.", nullable=True),
        row_id("configuration_id", "A kernel's launch configuration, without a stream.", nullable=True),
        size("size_bytes", "Bytes copied, set or allocated."),
        _ATTRIBUTES,
    )),
    Table("graph_edges", "one dependency between two nodes of one graph", (
        row_id("graph_id", "The graph."),
        row_id("from_node_id", "The node that comes first.", of="graph_nodes"),
        row_id("to_node_id", "The node that waits for it.", of="graph_nodes"),
        _ATTRIBUTES,
    )),
    Table("graph_events", "one event in the life of a graph", (
        key("graph_event_id", "Row number; rows are in order of start_ns, an unknown start first."),
        row_id("cell_id", "The cell that ran; null between cells.", nullable=True),
        row_id("thread_id", "The host thread; null where it is not known.", nullable=True),
        _LINE,
        enumeration("kind", {
            "capture": "begin to end", "define": "a definition was created", "instantiate": "", "update": "",
            "upload": "", "launch": "", "close": "",
            "before": "the executable graph was there when recording began"}, lead="Kind of it: "),
        row_id("graph_id", "The graph; null where it was not seen being built.", nullable=True),
        row_id("exec_id", "The executable graph, as the event instantiate or before that it came from; null for "
               "capture and define.", nullable=True, of="graph_events"),
        row_id("source_event_id", "Of instantiate and update: the capture or define that made the definition.",
               nullable=True, of="graph_events"),
        handle("stream", "Handle of the stream; 0 is the default stream.", nullable=True),
        instant("start_ns", "The call was entered; of a capture, when it began; null for before, and for a capture "
                "that began before recording did.", nullable=True),
        instant("end_ns", "The call returned; of a capture, when it ended; null where that was not seen.",
                nullable=True),
        word("api", "The function of the driver that was called, such as cuGraphInstantiateWithParams.",
             nullable=True, redaction="api"),
        enumeration("outcome", {"ok": "", "refused": "an update that the driver would not make", "failed": ""},
                    lead="What came of it: "),
        text("error", "The driver's name of what went wrong, and of an update where.", redaction="driver_error"),
        row_id("rebuild_of", "Of instantiate: the earlier instantiate of the same topology, which could have been "
               "reused or updated; null where it is no rebuild.", nullable=True, of="graph_events"),
        enumeration("change", {
            "none": "", "arguments": "pointers and scalars",
            "configuration": "launch configurations, sizes, kernels' attributes", "topology": ""},
                    lead="What differs from that one, or of an update from before it: ", nullable=True),
        text("changes", "The same as text, as in `grid of axpy 4 to 8; argument 1 of axpy`."),
        duration("queue_ns", "Of launch: from the call's return to the first node's start on the GPU; 0 where "
                 "it started before.", nullable=True),
        duration("execute_ns", "Of launch: from the first node's start to the last one's end on the GPU.",
                 nullable=True),
        handle("correlation_id", "CUPTI's correlation id of the call.", nullable=True),
        _ATTRIBUTES,
        PROCESS_ID,
    ), is_event=True, is_ordered=True),
    Table("passes", "one compiler pass or link phase", (
        row_id("compilation_id", "The compile it belongs to; null for a module loaded later.", nullable=True),
        row_id("specialization_id", "The specialization, where the phase belongs to one.", nullable=True),
        enumeration("kind", {"pass": "numba's pipeline", "phase": "mlir, nvvm, lto, link, load"}),
        word("name", "The pass's or phase's name.", _PASSES, redaction=Neutral("pass")),
        instant("start_ns", "When it began; null for passes, whose framework keeps durations only.", nullable=True),
        duration("duration_ns", "How long it took, phases inside it included."),
        PROCESS_ID,
    ), is_event=True),
    Table("code", "one text of code, recorded only on request", (
        row_id("dispatcher_id", "The kernel function."),
        row_id("specialization_id", "The specialization; null for the function's source.", nullable=True),
        enumeration("kind", {
            "source": "", "functions": "the source of those that it calls, as JSON",
            "types": "Numba's inferred types, as JSON", "mlir": "", "ttir": "Triton's MLIR", "ttgir": "likewise",
            "llvm": "", "ptx": "", "sass": "", "cubin": "the machine code itself, in base64"}, lead="Kind of it: "),
        text("text", "The text itself.", nullable=False),
        count("lineno", "Of source: the line in its file that the text begins with."),
        _ATTRIBUTES,
    )),
    Table("ranges", "one NVTX range or mark", (
        key("range_id", "Row number; rows are in order of start_ns, an unknown start first."),
        row_id("cell_id", "The cell that ran when it started; null between cells.", nullable=True),
        row_id("thread_id", "The host thread that started it."),
        _LINE,
        row_id("parent_range_id", "The push/pop range that was innermost on that thread then; null for start/end "
               "ranges.",
               nullable=True, of="ranges"),
        text("name", "Its message; empty where it was given none.", nullable=False, redaction="range"),
        word("domain", "The domain's name; null for the default domain, and for a Domain object that was made before "
             "recording began.", nullable=True, redaction=Neutral("domain")),
        word("category", "The category's name or number.", nullable=True, redaction=Neutral("category")),
        word("color", "The color as #rrggbb; null where none was given.", nullable=True, redaction="color"),
        text("payload", "The payload as text: numbers in full, of arrays the type and shape."),
        enumeration("kind", {"push_pop": "", "start_end": "", "mark": ""}, lead="Kind of it: "),
        enumeration("source", {"python": "nvtx's Python functions", "native": "NVTX's C interface"},
                    lead="Where it was seen: "),
        instant("start_ns", "When it was opened; null where that was before recording began.", nullable=True),
        instant("end_ns", "When it was closed; null where it was open when recording ended.", nullable=True),
        count("depth", "Push/pop ranges around it on its thread; 0 for start/end ranges.", nullable=False),
    ), is_event=True, is_ordered=True),
    Table("collections", "one collection of Python's garbage collector", (
        key("collection_id", "Row number; rows are in order of start_ns."),
        row_id("cell_id", "The cell that ran when it began; null between cells.", nullable=True),
        row_id("thread_id", "The host thread that it ran on."),
        instant("start_ns", "When it began: before the first object was looked at."),
        instant("end_ns", "When it was done, finalizers and callbacks of weak references included."),
        count("generation", "The oldest generation that it looked at: 0, 1 or 2; 2 is all objects."),
        count("collected", "Objects that it found unreachable and freed."),
        count("uncollectable", "Objects that it found unreachable and could not free."),
    ), since=2, is_event=True, is_ordered=True),
    Table("health", "one fact about the recording itself", (
        word("probe", "The probe, or recorder.", _PROBES, redaction=Neutral("probe")),
        enumeration("status", {"ok": "", "degraded": "part of it is missing", "unavailable": "", "failed": ""}),
        text("message", "What is so, in one line."),
        text("fix", "What to do about it."),
        count("dropped", "Records known to be lost."),
        count("errors", "Exceptions of KernelScope's own that were counted and swallowed."),
        amount("clock_error_ns", "How far the GPU's times can be off on the host clock."),
        amount("cost_ns", "Cost of recording one launch, calibrated or estimated."),
        amount("total_cost_ns", "The cost of one launch, or of one range, times their number."),
        PROCESS_ID,
    )),
)
