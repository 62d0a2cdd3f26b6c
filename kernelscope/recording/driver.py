"""Launches of kernels that no probe recorded: rows of ``launches`` from the driver's calls that CUPTI saw."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kernelscope.recording.api import is_launch
from kernelscope.recording.columns import Row, Spans
from kernelscope.recording.time import FOREVER, delay_ns, duration_ns, null_of, otherwise
from kernelscope.schema import UNKNOWN

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording

#: The framework of launches that no probe recorded.
FRAMEWORK = "driver"
#: Frameworks of which compiles are recorded and launches come from CUPTI.
_BY_CUPTI = (FRAMEWORK, "cupy")

# A kernel has a row of ``launches`` where a probe recorded its launch. Of the others CUPTI says which call of the
# driver or the runtime launched them, and that call becomes a row: its start and end are the launch's, and all of it is
# submit; what the library did before it is not known. Kernels of graph launches have no launch of their own.


def are_hooked(recording: Recording) -> np.ndarray:
    """Return which launches a probe recorded (bool, one a launch): the driver's own cost nothing of a hook."""
    frameworks = recording.arrow("dispatchers").column("framework").to_pylist()
    hooked = np.array([*(framework not in _BY_CUPTI for framework in frameworks), False])
    return hooked[recording.column("launches", "dispatcher_id")]


def add_driver_launches(launches: dict[str, Any], activities: dict[str, Any], dispatchers: list[Row],
                        specializations: list[Row], configurations: list[Row], others: Iterable[Row] = ()) -> None:
    """Add a launch for each call that launched a kernel, of those that no recorded launch and no graph launched.

    Parameters
    ----------
    launches : dict of str to array
        The launches' columns, in order of start; longer ones take their places.
    activities : dict of str to array
        The activities' columns; ``launch_id`` and ``specialization_id`` are replaced.
    dispatchers, specializations, configurations : list of dict
        Rows of the tables of that name; those of kernels that no probe knows are added.
    others : iterable of dict
        Rows of other tables, which name launches as ``launch_id``.
    """
    if not activities:
        return
    kernels, first, call = _calls(activities)
    if not len(kernels):
        return
    _add_specializations(activities, kernels, dispatchers, specializations)
    made = _launches(activities, kernels, first, call, specializations)
    if (made["configuration_id"] == UNKNOWN).any():
        made["configuration_id"] = np.where(
            made["configuration_id"] == UNKNOWN, len(configurations), made["configuration_id"])
        configurations.append({})
    made["parent_launch_id"] = Spans(
        launches["thread_id"], launches["start_ns"],
        otherwise(launches["end_ns"], FOREVER),
    ).around(made["thread_id"], (made["start_ns"] + made["end_ns"]) >> 1)
    known = len(launches["start_ns"])
    order = np.argsort(np.concatenate((launches["start_ns"], made["start_ns"])), kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    moved = np.append(place[:known], UNKNOWN)
    for name in {**launches, "parent_launch_id": None}:
        launches[name] = _merged(launches.get(name), made.get(name), order, known, null_of(name))
    launches["launch_id"] = np.arange(len(order))
    launches["parent_launch_id"] = moved[launches["parent_launch_id"]]
    activities["launch_id"] = moved[activities["launch_id"]]
    activities["launch_id"][kernels] = place[known + call]
    for row in others:
        if row.get("launch_id") is not None:
            row["launch_id"] = int(moved[row["launch_id"]])


def _calls(activities: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kernels of calls that are no launches yet; the first one of each such call; and the call of each kernel."""
    is_kernel, launches = _where(activities["kind"], "kernel".__eq__), _where(activities["api"], is_launch)
    rows = is_kernel & launches & (activities["thread_id"] != UNKNOWN)
    for name in ("launch_id", "cupti_graph_id", "graph_event_id"):
        if name in activities:
            rows &= activities[name] == UNKNOWN
    kernels = np.flatnonzero(rows)  # in order of start
    thread, begun = (np.asarray(activities[name])[kernels] for name in ("thread_id", "submit_start_ns"))
    order = np.lexsort((begun, thread))
    is_new = np.ones(len(kernels), bool)
    is_new[1:] = (np.diff(thread[order]) != 0) | (np.diff(begun[order]) != 0)
    call = np.empty(len(kernels), np.int64)
    call[order] = np.cumsum(is_new) - 1
    return kernels, kernels[order[is_new]], call


def _launches(activities: dict[str, Any], kernels: np.ndarray, first: np.ndarray, call: np.ndarray,
              specializations: list[Row]) -> dict[str, np.ndarray]:
    """Columns of the calls' launches."""
    taken = {name: np.asarray(activities[name])[first] for name in (
        "cell_id", "thread_id", "line_id", "stack_id", "configuration_id", "device_id", "specialization_id",
        "correlation_id", "submit_start_ns", "submit_end_ns")}
    dispatcher = np.array([row["dispatcher_id"] for row in specializations], np.int32)
    start, end = (np.asarray(activities[name]) for name in ("start_ns", "end_ns"))
    lasted = duration_ns(start[kernels], end[kernels])
    executed = np.full(len(first), UNKNOWN)
    executed[call[lasted != UNKNOWN]] = 0
    np.add.at(executed, call[lasted != UNKNOWN], lasted[lasted != UNKNOWN])
    returned = taken["submit_end_ns"]
    return {
        **taken,
        "start_ns": taken["submit_start_ns"], "end_ns": returned,
        "dispatcher_id": dispatcher[taken["specialization_id"]],
        "execute_ns": executed,
        "queue_ns": np.where(executed == UNKNOWN, UNKNOWN, delay_ns(returned, start[first])),
    }


def _merged(held: Any, made: np.ndarray | None, order: np.ndarray, known: int, null: int) -> Any:
    """A column of the known launches and of those that were made, in order; what one of them lacks is unknown."""
    if isinstance(held, pa.DictionaryArray):  # words, of which a driver's launch has none
        return pa.concat_arrays([held, pa.nulls(len(order) - known, held.type)]).take(pa.array(order))
    lacking = np.int32(null) if null == UNKNOWN else np.int64(null)
    return np.concatenate((
        np.broadcast_to(lacking, known) if held is None else held,
        np.broadcast_to(lacking, len(order) - known) if made is None else made))[order]


def _where(words: pa.DictionaryArray, is_wanted: Callable[[str], bool]) -> np.ndarray:
    """Which rows of a column of words have one that is wanted."""
    wanted = np.array([*[is_wanted(word) for word in words.dictionary.to_pylist()], False])
    return wanted[words.indices.fill_null(UNKNOWN).to_numpy()]


def _add_specializations(activities: dict[str, Any], kernels: np.ndarray, dispatchers: list[Row],
                         specializations: list[Row]) -> None:
    """Add the kernels of which nothing is known but their names, and name them in the activities."""
    known = np.asarray(activities["specialization_id"])
    name, entry = (activities[column].indices.fill_null(UNKNOWN).to_numpy() for column in ("name", "entry_name"))
    names, entries = (activities[column].dictionary.to_pylist() for column in ("name", "entry_name"))
    key = (entry.astype(np.int64) - UNKNOWN) * (len(names) + 1) + name - UNKNOWN
    wanted, first = np.unique(key[kernels][known[kernels] == UNKNOWN], return_index=True)
    if not len(wanted):
        return
    first = kernels[known[kernels] == UNKNOWN][first]
    held = {(row.get("module"), row["name"]): number for number, row in enumerate(dispatchers)
            if row.get("framework") == FRAMEWORK}
    rows = np.empty(len(wanted), np.int32)
    for at in np.argsort(first).tolist():
        kernel = int(first[at])
        mangled = entries[entry[kernel]] if entry[kernel] != UNKNOWN else None
        called, signature = split_name(names[name[kernel]] if name[kernel] != UNKNOWN else mangled or "?")
        library, called = library_of(called), without_scopes(called)
        if (library, called) not in held:
            held[library, called] = len(dispatchers)
            dispatchers.append({"framework": FRAMEWORK, "name": called, "module": library,
                                "attributes": json.dumps({"owner": "library"})})
        rows[at] = len(specializations)
        regs = int(activities["regs"][kernel])
        specializations.append({
            "dispatcher_id": held[library, called], "signature": signature, "entry_name": mangled, "origin": "before",
            "regs": None if regs == UNKNOWN else regs})
    # Those that graphs launched are the same kernels.
    place = np.minimum(np.searchsorted(wanted, key), len(wanted) - 1)
    is_one = (wanted[place] == key) & (known == UNKNOWN)
    activities["specialization_id"] = np.where(is_one, rows[place], known)


def split_name(name: str) -> tuple[str, str]:
    """Return a C++ function's name without its return type, and its parameters: ``f<int>`` and ``(int, float*)``.

    Another name comes back whole, with empty parentheses.
    """
    if not name.endswith(")"):
        return name, "()"
    depth, at = 0, len(name)
    while at:
        at -= 1
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if not depth:
            break
    called, depth, begin = name[:at], 0, 0
    for place, letter in enumerate(called):
        if letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            depth -= 1
        elif letter == " " and not depth:
            begin = place + 1
    return (called[begin:] or name, name[at:]) if called[begin:] else (name, "()")


_OPENING, _CLOSING = "<({[", ">)}]"


def without_scopes(name: str) -> str:
    """Return a C++ function's name without namespaces and classes, also in its template arguments.

    Of a name that says nothing by itself, such as ``cutlass::Kernel2<...>``, the innermost scope stays.
    """
    scopes, called = _OUTER.findall(name)[0]
    innermost = scopes.split("::")[-2:-1] if _SAYS_NOTHING.match(called) else []
    return "::".join([*innermost, _SCOPES.sub("", _LAMBDAS.sub("", called))])


_SCOPE = r"(?:\(anonymous namespace\)|(?!const::)\b[A-Za-z_]\w*)::"
_OUTER = re.compile(rf"((?:{_SCOPE})*)(.*)", re.DOTALL)
_SCOPES = re.compile(rf"(?:{_SCOPE})+")
_SAYS_NOTHING = re.compile(r"(device_|global_)?kernel_?\d*\b", re.IGNORECASE)
#: A lambda that returns the lambda that is meant, as PyTorch's dispatch by dtype does.
_LAMBDAS = re.compile(r"\{lambda\(\)#\d+\}::operator\(\)\(\) const::")

#: Whose kernel it is, by its name: the first that matches. What libraries call their kernels is documented nowhere.
_LIBRARIES = tuple((library, re.compile(pattern)) for library, pattern in (
    ("NCCL", r"nccl(Dev)?Kernel|ncclSymk"),
    ("FlashAttention", r"(pytorch_)?flash(_attn|_fwd|_bwd|attn)?(::|_)|fmha_"),
    ("PyTorch Inductor", r"triton_(poi|red|per|mm|tem|for|spl)_"),
    ("PyTorch", r"(at|c10|torch)(::|_cuda_detail)|.*\bat::native::"),
    ("cuDNN", r"cudnn|.*(implicit_gemm|fprop|dgrad|wgrad|convolve|nhwcTo|nchwTo)"),
    ("cuBLAS", r"cublas|nvjet_|gemvx?\b|gemv\w*_kernel|dot_kernel|.*(cublas|splitKreduce|internal::gemvx|gemmk1_kernel)"
               r"|sm\d+_xmma_gemm|(ampere|volta|turing|maxwell)_\w*gemm|cutlass::Kernel2?<cutlass_"),
    ("cuFFT", r"(regular|vector|composite|multi)_\w*fft|.*cufft"),
    ("cuSPARSE", r"cusparse|.*cusparse::"),
    ("cuSOLVER", r"cusolver|.*cusolver"),
    ("cuRAND", r"curand|generate_seed_pseudo|gen_sequenced"),
    ("CUTLASS", r"cutlass|.*cutlass::"),
    ("CUB", r"cub::|thrust::|.*\b(cub|thrust)::"),
    ("CuPy", r"cupy_"),
    ("XLA", r"(loop|input|wrapped|gemm|triton|copy|reduce|transpose|scatter)_\w*fusion|wrapped_\w+"),
))


def library_of(kernel: str) -> str | None:
    """Return the library that has a kernel, as its name tells; None where it does not."""
    return next((library for library, pattern in _LIBRARIES if pattern.match(kernel)), None)
