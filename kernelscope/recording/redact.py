"""A recording that can be shown to others: without source, code, and any name that a user gave.

`RULES` decides on every text column of the schema. Words of KernelScope, CUDA and numba stay (``compiled``,
``cuLaunchKernel``, ``float32``); any other text becomes a neutral name that stays distinct, such as ``kernel_2``, or is
left out. A column that no rule names is emptied. Numbers stay: times, sizes, line numbers, launch configurations.

Neutral names are counted by recording: merge first, then redact.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa

from kernelscope.recording.arrow import empty_table, table_of_rows
from kernelscope.recording.model import Recording
from kernelscope.recording.redact_metadata import PROBES, WITHHELD, is_number, mapping, shown_metadata
from kernelscope.recording.redact_types import Names, neutral_types
from kernelscope.schema import TABLES, UNKNOWN

#: Makes of a text what may be shown of it; None leaves it out.
Rule = Callable[[Names, str], str | None]


def redact(recording: Recording) -> Recording:
    """Return the recording without source, code, and names that a user gave.

    Reason codes stay; sentences and fixes, which quote names, are left out: `kernelscope.analysis.redaction.redacted`
    writes them again from the neutral names.

    Parameters
    ----------
    recording : Recording
        It is not changed.
    """
    names = Names()
    tables: dict[str, pa.Table] = {}
    # Kernels first, for activities and compiles are named after them.
    for name in sorted(TABLES, key=lambda each: each != "dispatchers"):
        tables[name] = empty_table(name) if name == "code" else _table(recording, name, names)
    return Recording(tables, shown_metadata(recording.metadata))


def without_texts(recording: Recording) -> Recording:
    """Return the recording without source, code, messages of exceptions and payloads of NVTX ranges.

    These are texts that a program may put anything into, a password included. Names stay, and so do the types of
    exceptions, and what KernelScope says itself.

    Parameters
    ----------
    recording : Recording
        It is not changed.
    """
    tables: dict[str, pa.Table] = {name: recording.arrow(name) for name in TABLES}
    tables["code"] = empty_table("code")
    for name, column, change in (
            ("cells", "source", _nothing), ("cells", "source_sha256", _nothing), ("ranges", "payload", _nothing),
            ("cells", "error", _type), ("compilations", "error", _type), ("builds", "error", _type)):
        at = tables[name].schema.get_field_index(column)
        changed = _changed(tables[name].column(at), change, nullable=True)
        tables[name] = tables[name].set_column(at, tables[name].schema.field(at), changed)
    # Errors of our own are quoted, and may quote what they were about.
    health = [{**row, "message": None} if row["errors"] or row["status"] == "failed" else row
              for row in recording.rows("health")]
    tables["health"] = table_of_rows("health", health)
    return Recording(tables, recording.metadata)


def _nothing(text: str) -> None:
    return None


def _type(text: str) -> str:
    """The exception's type, which is before the first colon."""
    kind = text.partition(":")[0].strip()
    return kind if re.fullmatch(r"[^\W\d][\w.]*", kind) else "Error"


def _word(kind: str, *known: str) -> Rule:
    """Keep these words; another one becomes a neutral name."""
    return lambda names, text: text if text in known else names.of(kind, text)


def _matching(kind: str, pattern: str) -> Rule:
    """Keep texts of this form; another one becomes a neutral name."""
    form = re.compile(pattern)
    return lambda names, text: text if form.fullmatch(text) else names.of(kind, text)


def _named(kind: str, suffix: str = "") -> Rule:
    return lambda names, text: names.of(kind, text) + suffix


def _file(names: Names, text: str) -> str:
    return text if text in ("<stdin>", "<string>") else names.of("file", text) + ".py"


def _dropped(names: Names, text: str) -> None:
    return None


def _hash(names: Names, text: str) -> str:
    """The hash of a neutral name: that of the code itself would confirm a guess of it."""
    return hashlib.sha256(names.of("code", text).encode()).hexdigest()


def _exception(names: Names, text: str) -> str:
    """The exception's type without its message."""
    kind = text.partition(":")[0].strip()
    known = getattr(builtins, kind, None)
    if kind in _EXCEPTIONS or (isinstance(known, type) and issubclass(known, BaseException)):
        return kind
    return names.of("Error", kind)


def _arguments(names: Names, text: str) -> str:
    """Names by position; a star stays."""
    parts = [part.strip() for part in text.split(",")]
    stars = [part[:len(part) - len(part.lstrip("*"))] for part in parts]
    return ", ".join(f"{star}argument_{at + 1}" for at, star in enumerate(stars))


def _options(names: Names, text: str) -> str | None:
    held = _object(text)
    return None if held is None else json.dumps({
        key if key in _OPTIONS else names.of("option", key):
        value if value is None or isinstance(value, bool | int | float) else WITHHELD
        for key, value in held.items()})


def _configuration(names: Names, text: str) -> str | None:
    return json.dumps(_shape(_object(text))) if _object(text) else None


def _activity(names: Names, text: str) -> str:
    """A copy's direction or what is waited for; a kernel's or function's name is left out."""
    return text if text in _ACTIVITIES else names.of("other_kernel", text)


def _driver_error(names: Names, text: str) -> str:
    """The driver's own words for what went wrong, without where."""
    found = re.match(r"(CUDA_ERROR_[A-Z0-9_]+|CUresult \d+)?[:,; (]*(CU_GRAPH_EXEC_UPDATE_ERROR_[A-Z_]+)?\b", text)
    known = [word for word in found.groups() if word] if found else []
    return ": ".join(known) or names.of("Error", text)


def _part_names(names: Names, text: str) -> str:
    """Names of the parts of a build cache's key, such as `op captured scale`: at the end of that is a user's name."""
    found: list[str] = []
    for part in text.split(", "):
        head, word, variable = re.split(r"( captured | global )", part + " captured ", maxsplit=1)
        variable = variable.removesuffix(" captured ")
        known = [each if each in _KEY_PARTS else names.of("part", each) for each in head.split(" ")]
        found.append(" ".join(known) + (word + names.of("part", variable) if variable else ""))
    return ", ".join(found)


def _key_parts(names: Names, text: str) -> str | None:
    """The parts of a build cache's key without their values, which stay distinct."""
    held = _object(text)
    return None if held is None else json.dumps(
        {_part_names(names, key): names.of("value", json.dumps(each)) for key, each in held.items()})


def _owner(names: Names, text: str) -> str | None:
    """Whose a kernel is."""
    owner = (_object(text) or {}).get("owner")
    return json.dumps({"owner": owner}) if owner in ("user", "ufunc", "reduce", "library") else None


def _compile_attributes(names: Names, text: str) -> str | None:
    """What reasons are made of: other signatures and launch configurations that the kernel had."""
    held = _object(text) or {}
    kept: dict[str, Any] = {}
    if isinstance(held.get("known_signatures"), list):
        kept["known_signatures"] = [neutral_types(names, str(each)) for each in held["known_signatures"]]
    if isinstance(held.get("known_configurations"), list):
        kept["known_configurations"] = [_shape(each) for each in held["known_configurations"]]
    redefined = held.get("redefined")
    if isinstance(redefined, bool):
        kept["redefined"] = redefined
    elif isinstance(redefined, dict):
        kept["redefined"] = {name: redefined[name] for name in ("same_code", "same_function")
                             if isinstance(redefined.get(name), bool)}
    if isinstance(held.get("passed"), list):
        kept["passed"] = [each if each in _ARRAYS else None for each in held["passed"]]
    return json.dumps(kept) if kept else None


_ARRAYS = ("host", "device", "cupy", "torch", "other")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_OPTIONS = _words(
    "debug lineinfo opt link fastmath device inline forceinline extensions launch_bounds lto max_registers cache "
    "shared_memory_carveout cc abi_info output noalias opt_level capi ptxas_options features")
_EXCEPTIONS = _words(
    "TypingError LoweringError NumbaError UnsupportedError InternalError CudaAPIError CudaSupportError NvvmError "
    "NvvmSupportError NvrtcError NvrtcCompilationError LinkerError CUDAError NVRTCError PicklingError "
    "NumbaNotImplementedError ConstantInferenceError ForceLiteralArg RedefinedError")
_SHAPES = _words("griddim blockdim cluster sharedmem_bytes sharedmem stream")
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
)
_ACTIVITIES = ("HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "memset",
               "event synchronize", "stream synchronize", "context synchronize", "synchronize")
_MEMORY = r"(?:pageable|pinned|device|managed|array)(?: to (?:pageable|pinned|device|managed|array))?"
_API = r"(?:cu|cuda|cudart|nvtx)[A-Z]\w{0,60}|cuda\.core\.launch"
_MODEL = (r"[A-Z]{0,4}\d{1,4}(?:GB|MB|GiB)?|RTX|GTX|TITAN|Tesla|Quadro|GeForce|PCIe|HBM\d\w?|NVL|SXM\d|Ti|SUPER|Laptop|"
          r"GPU|Graphics|Ada|Generation|Blackwell|Pro|PRO|Workstation|Server|Edition|Max-Q|MIG|\dg\.\d+gb|X|V|Xp")
_CAPABILITY = _matching("capability", r"\d+\.\d+[af]?")
# Of cuda.compute; a probe's own library names its algorithms itself.
_ALGORITHMS = _words(
    "reduce_into inclusive_scan exclusive_scan merge_sort radix_sort segmented_sort segmented_reduce histogram_even "
    "unique_by_key three_way_partition unary_transform binary_transform select lower_bound upper_bound")
# Arguments of its algorithms, what of them counts, and its fields; a captured variable has a name of the user's.
_KEY_PARTS = _words(
    "d_in d_in1 d_in2 d_out d_in_keys d_in_values d_out_keys d_out_values d_in_items d_out_items d_values d_data "
    "d_samples d_histogram d_num_selected_out d_out_num_selected d_first_part_out d_second_part_out d_unselected_out "
    "h_init h_lower_level h_upper_level h_num_output_levels level_dtype num_items num_segments num_samples num_values "
    "num_output_levels num_bins lower_level upper_level start_offsets_in end_offsets_in op comp cond order selector "
    "select_first_part_op select_second_part_op begin_bit end_bit determinism compute_capability kind dtype dtypes "
    "name code state operator iterator type types target algorithm 2 3 4")
_NODE_KINDS = _words("kernel memcpy memset host empty event_record event_wait child if while switch mem_alloc mem_free "
                     "other")
_EVENT_KINDS = _words("capture define instantiate update upload launch close before")
_BUILD_REASONS = _words(
    "first_use new_operator_name new_operator_value new_operator new_dtype new_array_type new_iterator new_device "
    "new_option several cache_cleared wait unknown")
_REASON_CODES = _words(
    "first_use first_signature new_dtype new_dimensions new_layout new_access new_alignment new_scalar tuple_arity "
    "optional literal new_type argument_count launch_config specialize forall eager redefined recompile new_device "
    "cache_absent cache_stale cache_unwritable disk disk_unsafe wait unknown")

#: What becomes of every text column but those of ``code``, whose rows are left out, by table.
RULES: dict[str, dict[str, Rule]] = {
    "cells": {
        "name": _named("cell"), "status": _word("status", "ok", "error", "interrupted"), "error": _exception,
        "source": _dropped, "source_sha256": _dropped,
    },
    "threads": {"name": _word("thread", "MainThread")},
    "devices": {
        "name": _matching("device", rf"(?:NVIDIA|Tesla|Quadro|GeForce|TITAN)(?: (?:{_MODEL}))*"),
        "compute_capability": _CAPABILITY,
    },
    "dispatchers": {
        "framework": _word("framework", *PROBES), "name": _named("kernel"), "module": _named("module"),
        "filename": _file, "arguments": _arguments, "options": _options, "code_sha256": _hash,
        "attributes": _owner,
    },
    "specializations": {
        "signature": neutral_types, "compute_capability": _CAPABILITY, "launch_config": _configuration,
        "origin": _word("origin", "compiled", "disk", "before"), "entry_name": _named("entry"), "attributes": _dropped,
    },
    "configurations": {},
    "occupancies": {},
    "launches": {"cache": _word("cache", "memory", "disk", "compiled", "wait"), "error": _exception},
    "activities": {
        "kind": _word("kind", "kernel", "memcpy", "memset", "sync"),
        "name": _activity,
        "entry_name": _named("entry"), "api": _matching("api", _API), "memory": _matching("memory", _MEMORY),
    },
    "api_calls": {"name": _matching("api", _API)},
    "compilations": {
        "trigger": _word("trigger", "launch", "eager", "specialize", "recompile", "device", "compile"),
        "signature": neutral_types, "outcome": _word("outcome", "compiled", "disk", "wait", "failed"),
        "reason_code": _word("reason", *_REASON_CODES), "reason": _dropped, "argument": _named("unknown_argument"),
        "nearest_signature": neutral_types, "fix": _dropped, "cache_file": _named("cache", ".nbi"),
        "cache_data_file": _named("cache_data", ".nbc"), "cache_key": _named("key"), "error": _exception,
        "attributes": _compile_attributes,
    },
    "builds": {
        "framework": _word("framework", *PROBES), "algorithm": _word("algorithm", *_ALGORITHMS),
        "compute_capability": _CAPABILITY, "outcome": _word("outcome", "hit", "miss", "wait", "failed"),
        "key_parts": _key_parts, "differing_parts": _part_names,
        "reason_code": _word("reason", *_REASON_CODES, *_BUILD_REASONS), "reason": _dropped, "fix": _dropped,
        "error": _exception, "attributes": _dropped,
    },
    "graphs": {"fingerprint": _hash, "topology": _hash, "attributes": _dropped},
    "graph_nodes": {"kind": _word("node", *_NODE_KINDS), "name": _activity, "entry_name": _named("entry"),
                    "attributes": _dropped},
    "graph_edges": {"attributes": _dropped},
    "graph_events": {
        "kind": _word("event", *_EVENT_KINDS), "api": _matching("api", _API),
        "outcome": _word("outcome", "ok", "refused", "failed"), "error": _driver_error,
        "change": _word("change", "none", "arguments", "configuration", "topology"), "changes": _dropped,
        "attributes": _dropped,
    },
    "passes": {"kind": _word("kind", "pass", "phase"), "name": _word("pass", *_PASSES)},
    "ranges": {
        "name": _named("range"), "domain": _named("domain"), "category": _named("category"),
        "color": _matching("color", r"#[0-9a-fA-F]{6}"), "payload": _dropped,
        "kind": _word("kind", "push_pop", "start_end", "mark"), "source": _word("source", "python", "native"),
    },
    "health": {
        "probe": _word("probe", *PROBES), "status": _word("status", "ok", "degraded", "unavailable", "failed"),
        "message": _dropped, "fix": _dropped,
    },
}


def _table(recording: Recording, name: str, names: Names) -> pa.Table:
    table = recording.arrow(name)
    special = {("activities", "name"): _own_kernels, ("graph_nodes", "name"): _own_nodes,
               ("compilations", "argument"): _argument_names}
    for index, column in enumerate(TABLES[name].columns):
        if column.dtype not in ("string", "category"):
            continue
        held = table.column(index)
        by_row = special.get((name, column.name))
        if by_row is not None:
            by_row(recording, names)
        # A column that a later schema adds is not shown before someone has decided on it.
        rule = RULES.get(name, {}).get(column.name, _dropped)
        changed = _changed(held, lambda text, rule=rule: rule(names, text), column.nullable)
        table = table.set_column(index, table.schema.field(index), changed)
    return table


def _changed(column: pa.ChunkedArray, change: Callable[[str], str | None], nullable: bool) -> pa.ChunkedArray:
    """The column with each distinct text changed; an empty one stays."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks: list[Any] = []
    for chunk in encoded.chunks:
        after = [text and change(text) for text in chunk.dictionary.to_pylist()]
        if not nullable:
            after = [WITHHELD if text is None else text for text in after]
        distinct = {text: code for code, text in enumerate(dict.fromkeys(each for each in after if each is not None))}
        codes = pa.array([None if text is None else distinct[text] for text in after], pa.int32())
        words = pa.array(list(distinct), pa.string())
        chunks.append(pa.DictionaryArray.from_arrays(codes.take(chunk.indices.cast(pa.int32())), words))
    return pa.chunked_array(chunks, pa.dictionary(pa.int32(), pa.string())).cast(column.type)


def _own_kernels(recording: Recording, names: Names, table: str = "activities") -> None:
    """Give kernels that the GPU ran the neutral names of the recorded kernels that they are."""
    column = recording.arrow(table).column("name")
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    encoded = column.unify_dictionaries().combine_chunks()
    words: list[str] = encoded.dictionary.to_pylist()
    code = encoded.indices.fill_null(UNKNOWN).to_numpy()
    specialization = recording.column(table, "specialization_id")
    owners = recording.column("specializations", "dispatcher_id")
    kernels: list[str] = recording.arrow("dispatchers").column("name").to_pylist()
    ours = (specialization >= 0) & (code >= 0)
    for word, which in np.unique(np.stack([code[ours], specialization[ours]], axis=1), axis=0).tolist():
        names.same("other_kernel", words[word], names.of("kernel", kernels[owners[which]]))


def _own_nodes(recording: Recording, names: Names) -> None:
    """Give nodes of graphs the neutral names of the recorded kernels that they are; host functions have their own."""
    _own_kernels(recording, names, "graph_nodes")
    for name, kind in zip(recording.column("graph_nodes", "name").tolist(),
                          recording.column("graph_nodes", "kind").tolist(), strict=True):
        if kind == "host" and name:
            names.same("other_kernel", name, names.of("function", name))


def _argument_names(recording: Recording, names: Names) -> None:
    """Give arguments that made a compile necessary their names by position."""
    arguments = recording.arrow("dispatchers").column("arguments").to_pylist()
    for row in recording.rows("compilations"):
        text, listed = row["argument"], arguments[row["dispatcher_id"]]
        if not text or not listed:
            continue
        known = [part.strip().lstrip("*") for part in listed.split(",")]
        base, bracket, index = text.partition("[")
        if base in known and (not bracket or re.fullmatch(r"\d+\]", index)):
            names.same("unknown_argument", text, f"argument_{known.index(base) + 1}{bracket}{index}")


def _shape(value: Any) -> dict[str, Any]:
    """A launch configuration's numbers."""
    held = _object(value) if isinstance(value, str) else mapping(value)
    return {key: each for key, each in (held or {}).items()
            if key in _SHAPES and (is_number(each) or (isinstance(each, list) and all(map(is_number, each))))}


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
