"""A recording that can be shown to others: without paths, and on request without source, code and names."""

from __future__ import annotations

import base64
import builtins
import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kernelscope import cubin
from kernelscope.errors import CubinError
from kernelscope.recording.api import PREFIXES
from kernelscope.recording.model import Recording
from kernelscope.recording.parquet import empty_table, table_of_rows
from kernelscope.recording.paths import LEFT_OUT, SEPARATOR
from kernelscope.recording.ranges import common_name
from kernelscope.registry import importers
from kernelscope.schema import DETAILS, JSON_COLUMNS, MODES, TABLES, UNKNOWN, Column, Neutral

# What leaves the machine: a recording, a study or a report without the paths of the machine on which it was made.
#
# `shareable` decides for every way out of a recording: files, tables, traces, pages, what is printed, and the cards
# and pictures that a notebook saves. `shareable_values` decides for what is no recording, and `shareable_code`
# for one text of code.
#
# - Columns that the schema marks as paths keep the file's name.
# - In every other text, in JSON and in the metadata too, a path keeps the file's name: in messages (errors, reasons,
#   fixes, health), and in names that a program gave (of cells, ranges, threads, workers).
# - Code keeps of each source file the name: PTX, SASS, LLVM, MLIR and types. What a debugger needs is left out of PTX,
#   and so is a cubin with line information: both hold paths that cannot be cut.
# - Source, of cells, lines and kernels, keeps what its author typed, but for the home folder, which becomes ``~``, and
#   the working one, which becomes ``.``: as in every text.
#
# ``source_sha256`` stays that of the source as it was. A path with blanks is found where it is quoted, or leads into
# one of the two folders. A user's or host's name is not looked for outside of paths.
#
# A recording of one process for itself leaves out its machine's name and boot. With a launcher or with other processes
# they stay: they tell machines apart when recordings are merged, and who reads one wants to know which was slow.

#: Columns of source.
_SOURCE = (("cells", "source"), ("lines", "text"), ("code", "text"))

# The folders of a path, not of a URL and not of a ratio such as ns/op; what follows is the file's name.
_POSIX_FOLDERS = re.compile(r"""(?<![\w/~.])(?:file://|[~.])?/(?:[^\s/"'`<>|:;,()\[\]{}]+/)+(?=[^\s/])""")
_WINDOWS_FOLDERS = re.compile(r"""(?<!\w)[A-Za-z]:[\\/](?:[^\s\\/"'`<>|:;,]+[\\/]+)+(?=[^\s\\/])""")
# In quotes it may have blanks.
_QUOTED_FOLDERS = re.compile(r"""(?<=['"])(?:[~.]?/|[A-Za-z]:[\\/])[^'"\n]*[\\/](?=[^'"\n\\/]+['"])""")

# A debugger's sections in PTX hold paths as bytes.
_DEBUG_SECTION = re.compile(r"^([ \t]*\.section[ \t]+\.debug_\w+)\s*\{.*?^[ \t]*\}", re.MULTILINE | re.DOTALL)
_SOURCE_FILE = re.compile(r'(\.file[ \t]+\d+[ \t]+|//## File |inlined at |\bfilename: )"([^"\n]*)"')
_MLIR_FILE = re.compile(r'(\bloc\()"([^"\n]*)"(?=:\d)')
_MLIR_FOLDER = re.compile(r'(\bdi_file<"[^"\n]*" in )"[^"\n]*"')
_LLVM_FOLDER = re.compile(r'\bdirectory: "[^"]*"')


def shareable(recording: Recording, *, paths: bool = False) -> Recording:
    """Return the recording as it leaves the machine: without paths, unless they are asked for.

    Whatever writes, prints or draws a recording takes it from here. What is asked for again is not made again.

    Parameters
    ----------
    recording : Recording
        It is not changed, and returned itself where it holds no paths.
    paths : bool
        Keep full paths of the machine.
    """
    if paths:
        return recording
    folders = _own_folders()
    found = recording.without_paths
    if found is not None and found[0] == folders:
        return recording if found[1] is None else found[1]
    made = without_paths(recording)
    if _is_alone(made.arrow("processes")):
        made = _without_host(made)
    recording.without_paths = folders, None if made is recording else made
    made.without_paths = folders, None
    return made


def without_paths(recording: Recording) -> Recording:
    """Return the recording without paths, itself where it holds none; what tells its machine from others stays."""
    folders = _own_folders()
    held = {name: recording.arrow(name) for name in TABLES}
    tables = {name: _cut_table(name, table, folders) for name, table in held.items()}
    metadata = cast("dict[str, Any]", _cut_values(dict(recording.metadata), partial(_cut_prose, folders)))
    is_same = metadata == recording.metadata and all(tables[name] is table for name, table in held.items())
    return recording if is_same else Recording(tables, metadata)


def _is_alone(processes: pa.Table) -> bool:
    """Whether a process was recorded for itself: then nothing has to tell its machine from another."""
    return processes.num_rows == 1 and processes.column("launcher").null_count == 1


def _without_host(recording: Recording) -> Recording:
    """The recording without the machine's name and boot, itself where it has neither."""
    held, metadata = recording.arrow("processes"), dict(recording.metadata)
    metadata |= {name: {key: each for key, each in mapping(metadata[name]).items() if key not in ("host", "boot")}
                 for name in ("process", "clock") if mapping(metadata.get(name))}
    at = held.schema.get_field_index("host")
    if held.column(at).null_count and metadata == recording.metadata:
        return recording
    processes = held.set_column(at, held.schema.field(at), pa.nulls(1, pa.string()))
    return Recording({**recording.tables, "processes": processes}, metadata)


def shareable_values(values: Any, code: Collection[str] = ()) -> Any:
    """Return JSON values as they leave the machine: without paths, as in messages.

    Parameters
    ----------
    values : Any
        What JSON can hold.
    code : collection of str, optional
        The keys of texts that are code: what its author typed stays, as in the source of cells.
    """
    folders = _own_folders()
    return _cut_values(values, partial(_cut_prose, folders), code, partial(_cut_folders, folders))


def shareable_code(kind: str, text: str) -> str:
    """Return a text of code as it leaves the machine; `kind` is as in the table ``code``."""
    return _CODE_CUTTERS.get(kind, _cut_folders)(_own_folders(), text)


def _own_folders() -> list[tuple[re.Pattern[str], str]]:
    """Patterns for the working and the home folder in the spellings they can have, and what stands for each."""
    found: dict[str, str] = {}
    for find, sign in ((Path.cwd, "."), (Path.home, "~")):
        try:
            folder = find()
        except (OSError, RuntimeError):
            continue
        for path in (folder, Path(os.path.realpath(folder))):
            # The root is no one's own folder, and every path begins with it.
            if path != Path(path.anchor):
                for text in (str(path), path.as_posix(), json.dumps(str(path))[1:-1]):
                    found.setdefault(text, sign)
    # The longer first: the working folder is often inside the home folder.
    return [(re.compile(re.escape(text) + r"(?![\w-])"), found[text]) for text in sorted(found, key=len, reverse=True)]


def _cut_table(name: str, table: pa.Table, folders: list[tuple[re.Pattern[str], str]]) -> pa.Table:
    if not table.num_rows:
        return table
    if name == "code":
        table = _cut_code(table, folders)
    for index, column in enumerate(TABLES[name].columns):
        if column.dtype not in ("string", "category") or table.column(index).null_count == table.num_rows:
            continue
        cut = _cut_column(table.column(index), _cutter(name, column, folders))
        if cut is not None:
            table = table.set_column(index, table.schema.field(index), cut)
    return table


def _cut_code(table: pa.Table, folders: list[tuple[re.Pattern[str], str]]) -> pa.Table:
    rows: list[dict[str, Any]] = []
    before: list[dict[str, Any]] = table.to_pylist()
    for row in before:
        if row["kind"] == "cubin" and _has_paths(row["text"]):
            continue
        rows.append({**row, "text": _CODE_CUTTERS.get(row["kind"], _cut_folders)(folders, row["text"])})
    return table if rows == before else table_of_rows("code", rows)


def _has_paths(text: str) -> bool:
    """Whether the machine code holds paths; what cannot be read may."""
    try:
        return cubin.read(base64.b64decode(text, validate=True)).has_line_info
    except (CubinError, ValueError):
        return True


def _cut_code_text(folders: list[tuple[re.Pattern[str], str]], text: str) -> str:
    """PTX, SASS or LLVM; what names a source file is quoted, so that its path can have blanks."""
    text = _LLVM_FOLDER.sub('directory: ""', text)
    text = _SOURCE_FILE.sub(lambda found: f'{found[1]}"{_file_name(found[2])}"', text)
    return _cut_prose(folders, _DEBUG_SECTION.sub(r"\1\t// left out: it can hold paths", text))


def _cut_mlir(folders: list[tuple[re.Pattern[str], str]], text: str) -> str:
    text = _MLIR_FOLDER.sub(r'\1""', text)
    text = _MLIR_FILE.sub(lambda found: f'{found[1]}"{_file_name(found[2])}"', text)
    return _cut_prose(folders, text)


def _cutter(table: str, column: Column, folders: list[tuple[re.Pattern[str], str]]) -> Callable[[str], str]:
    if column.is_path:
        return _file_name
    if column.name in JSON_COLUMNS:
        return partial(_cut_json, folders)
    return partial(_cut_folders if (table, column.name) in _SOURCE else _cut_prose, folders)


def _cut_column(column: pa.ChunkedArray, cut: Callable[[str], str]) -> pa.ChunkedArray | None:
    """The column with each distinct text cut, or None where that changes nothing."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks: list[Any] = []
    changed = False
    for chunk in encoded.chunks:
        # What has no path in it stays as it is: of a million names none is looked at one by one.
        suspects = _may_hold_paths(chunk.dictionary)
        before: list[str] = chunk.dictionary.to_pylist() if suspects else []
        after = [*before]
        for at in suspects:
            after[at] = cut(before[at])
        changed = changed or after != before
        if after == before:
            chunks.append(chunk)
            continue
        # Two paths can have become one name; a dictionary holds each text once.
        distinct = {text: code for code, text in enumerate(dict.fromkeys(after))}
        codes = pa.array([distinct[text] for text in after], pa.int32())
        chunks.append(pa.DictionaryArray.from_arrays(codes.take(chunk.indices), pa.array(list(distinct), pa.string())))
    if not changed:
        return None
    return pa.chunked_array(chunks, encoded.type).cast(column.type)


def _may_hold_paths(texts: pa.Array) -> list[int]:
    """Return the places of the texts that have what every path has, or an escape of JSON that may stand for it."""
    compute = cast("Any", pc)
    found = compute.or_(compute.match_substring(texts, "/"), compute.match_substring(texts, "\\"))
    return np.flatnonzero(found.to_numpy(zero_copy_only=False)).tolist()


def _file_name(text: str) -> str:
    return re.split(r"[\\/]", text.rstrip("\\/"))[-1]


def _cut_folders(folders: list[tuple[re.Pattern[str], str]], text: str) -> str:
    for pattern, sign in folders:
        text = pattern.sub(lambda _, sign=sign: sign, text)
    return text


def _cut_prose(folders: list[tuple[re.Pattern[str], str]], text: str) -> str:
    text = _QUOTED_FOLDERS.sub("", _cut_folders(folders, text))
    return _WINDOWS_FOLDERS.sub("", _POSIX_FOLDERS.sub("", text))


def _cut_json(folders: list[tuple[re.Pattern[str], str]], text: str) -> str:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return _cut_prose(folders, text)
    cut = _cut_values(content, partial(_cut_prose, folders))
    return text if cut == content else json.dumps(cut, ensure_ascii=False)


def _cut_values(value: Any, cut: Callable[[str], str], code: Collection[str] = (),
                cut_code: Callable[[str], str] = str) -> Any:
    """JSON values with every text in them cut, keys included; what has one of the keys `code` is cut as code is."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {cut(key) if isinstance(key, str) else key:
                _cut_values(item, cut_code if key in code else cut, code, cut_code) for key, item in items}
    if isinstance(value, list | tuple):
        return [_cut_values(item, cut, code, cut_code) for item in cast("list[Any]", value)]
    return value


def _cut_functions(folders: list[tuple[re.Pattern[str], str]], text: str) -> str:
    """The source of functions, with the names of their files; the texts are cut as other source is."""
    try:
        held = cast("list[dict[str, Any]]", json.loads(text))
        cut = [{**each, "file": _file_name(each["file"]), "text": _cut_folders(folders, each["text"])} for each in held]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return _cut_prose(folders, text)
    return text if cut == held else json.dumps(cut)


_CODE_CUTTERS: dict[str, Callable[[list[tuple[re.Pattern[str], str]], str], str]] = {
    "types": _cut_json, "functions": _cut_functions, **dict.fromkeys(("mlir", "ttir", "ttgir"), _cut_mlir),
    **dict.fromkeys(("llvm", "ptx", "sass"), _cut_code_text)}


# Neutral names, and numba's types with neutral names in the place of a user's.

# A digit first is a number, a dimension such as 2d, or an address.
_TOKEN = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+d?|0x[0-9a-f]+|\d+e\d+")
_NUMERIC = re.compile(r"(?:u?int|float|complex|bfloat|bool|fp)\d*(?:_\d+|_?e\dm\d(?:fn|fnuz|fnu)?)?"
                      r"|[<>|=]?[iufcbSUV]\d+")
_WORDS = frozenset(_TOKEN.findall(
    "array Array readonly unaligned mutable aligned boolean bool none None void x C F A True False nestedarray "
    "UniTuple Tuple NamedTuple NamedUniTuple StarArgTuple StarArgUniTuple Record type offset Optional OptionalType "
    "omitted default Literal LiteralStrKey int str float complex unicode_type bytes undefined pyobject "
    "IntEnumMember EnumMember IntEnumClass EnumClass Enum class function CUDADispatcher Dispatcher type at Function "
    "Module RawPointer CPointer voidptr uintp intp size_t DType dtype slice range_state_int32 range_state_int64 "
    "range_iter_int32 range_iter_int64 datetime64 timedelta64 NPDatetime NPTimedelta ns us ms s m h D W M Y "
    "List Set Dict reflected list set dict DictType ListType cuda dim3 Dim3 grid_group GridGroup random "
    "xoroshiro128p_type xoroshiro128p curand"))


class Names:
    """Neutral names that stay distinct: the same text of the same kind gets the same name, ``kernel_1`` and on."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, str]] = {}
        self._counted: dict[str, int] = {}

    def of(self, kind: str, text: str) -> str:
        """Return the name that stands for a text."""
        held = self._held.setdefault(kind, {})
        if text not in held:
            self._counted[kind] = self._counted.get(kind, 0) + 1
            held[text] = f"{kind}_{self._counted[kind]}"
        return held[text]

    def same(self, kind: str, text: str, name: str) -> None:
        """Let a text of this kind have a name that another kind gave; the first one stays."""
        self._held.setdefault(kind, {}).setdefault(text, name)


def neutral_types(names: Names, text: str) -> str:
    """Return a signature in which record fields, enumerations, functions and strings have neutral names.

    Numbers stay, those of literal types included.
    """

    def neutral(found: re.Match[str]) -> str:
        token = found.group()
        if token in _WORDS or _NUMBER.fullmatch(token) or _NUMERIC.fullmatch(token):
            return token
        return names.of("name", token)

    return _TOKEN.sub(neutral, text)


# What may be shown of a recording's metadata: versions and what was on.

#: What stands where a text that cannot be null is left out.
WITHHELD = "withheld"

_PROBES = TABLES["health"].column("probe").values
_RECORDER = {"backend": ("native", "python"), "mode": MODES, "capacity": (), "kept": (), "lost": ()}
#: Whose traces are opened.
_PRODUCERS = frozenset(name for importer in importers() for name in importer.producers.values())
_PACKAGES = ("numba-cuda", "numba", "cuda-core", "cuda-bindings", "numpy", "nvtx", "ipython", "cupti-python",
             "numba-cuda-mlir", "cuda-cccl", "quadrants", "triton", "torch", "cupy", "cuda-tile", "pandas", "pyarrow",
             "kernelscope")
_VERSION = r"\d+(?:\.\d+){0,4}(?:(?:a|b|rc|\.dev|\.post)\d+)?"


def shown_metadata(held: Mapping[str, Any]) -> dict[str, Any]:
    """Return the versions and what was on; keys that are not known here are left out."""
    kept: dict[str, Any] = {"name": "redacted", "redacted": True}
    for key in ("schema_version", "cpus", "merged", "dry_run", "simulator"):
        if isinstance(held.get(key), bool | int):
            kept[key] = held[key]
    for key, pattern in (("created", r"[\d:T+Z.-]+"), ("detail", "|".join(DETAILS)), ("python", _VERSION),
                         ("driver_version", _VERSION), ("platform", r"(Linux|Windows|macOS)(?:-.*)?")):
        found = re.fullmatch(pattern, held[key], re.DOTALL) if isinstance(held.get(key), str) else None
        if found:  # of the platform, the build's name can be a machine's own
            kept[key] = found[1] if found.lastindex else found[0]
    if isinstance(held.get("probes"), list):
        kept["probes"] = [each for each in held["probes"] if each in _PROBES]
    kept["packages"] = {name: version for name, version in mapping(held.get("packages")).items()
                        if name in _PACKAGES and isinstance(version, str) and re.fullmatch(_VERSION, version)}
    clock = mapping(held.get("clock"))
    kept["clock"] = {key: clock[key] for key in ("host_ns", "wall_ns", "error_ns") if is_number(clock.get(key))}
    if gpu := mapping(held.get("gpu")):
        kept["gpu"] = {"source": gpu.get("source") if gpu.get("source") in _PROBES else WITHHELD}
        if is_number(gpu.get("clock_error_ns")):
            kept["gpu"]["clock_error_ns"] = gpu["clock_error_ns"]
    if known := {name: mapping(facts).get("kind") for name, facts in mapping(held.get("own_cost")).items()}:
        kept["own_cost"] = {name: {"kind": kind} for name, kind in known.items() if name in _PROBES
                            and re.fullmatch("(partly )?calibrated|estimated", str(kind))}
    if imported := mapping(held.get("imported")):
        kept["imported"] = {"from": imported.get("from") if imported.get("from") in _PRODUCERS else WITHHELD}
    recorder = {key: value for key, value in mapping(held.get("recorder")).items()
                if key in _RECORDER and (value in _RECORDER[key] or is_number(value))}
    return kept | ({"recorder": recorder} if recorder else {})


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def is_number(value: Any) -> bool:
    """Whether it is a number or a truth value."""
    return isinstance(value, int | float)


# A recording that can be shown to others: without source, code, and any name that a user gave.
#
# The schema says of each text column what becomes of it. Its values stay (``compiled``), and words of CUDA and numba
# (``cuLaunchKernel``, ``float32``); any other text becomes a neutral name that stays distinct, such as ``kernel_2``, or
# is left out. A column of which the schema says nothing is emptied. Numbers stay: times, sizes, line numbers, launch
# configurations.
#
# Neutral names are counted by recording: merge first, then redact.

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
            ("cells", "source", _nothing), ("cells", "source_sha256", _nothing), ("lines", "text", _nothing),
            ("ranges", "payload", _nothing),
            ("cells", "error", _type), ("compilations", "error", _type), ("builds", "error", _type),
            ("builds", "attributes", _types_of_trials)):
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


def _types_of_trials(text: str) -> str | None:
    """What an autotuner tried, with the types of its errors."""
    held = _object(text)
    if held is None:
        return None
    for key in ("configurations", "pruned"):
        if isinstance(held.get(key), list):
            held[key] = [{**each, "error": _type(str(each["error"]))} if mapping(each).get("error") else each
                         for each in held[key]]
    return json.dumps(held, ensure_ascii=False)


def _matching(kind: str, pattern: str) -> Rule:
    """Keep texts of this form; another one becomes a neutral name."""
    form = re.compile(pattern)
    return lambda names, text: text if form.fullmatch(text) else names.of(kind, text)


def _named(kind: str, suffix: str = "") -> Rule:
    return lambda names, text: names.of(kind, text) + suffix


def _range(names: Names, text: str) -> str:
    """One name for all ranges of a name that differ in what PyTorch adds for one of them."""
    return names.of("range", common_name(text))


def _file(names: Names, text: str) -> str:
    return text if text in ("<stdin>", "<string>") else names.of("file", text) + ".py"


def _source_file(names: Names, text: str) -> str:
    """A notebook's cell by its number; a file by a neutral name."""
    return text if re.fullmatch(r"In\[\d+\]", text) else _file(names, text)


def _dropped(names: Names, text: str) -> None:
    return None


def _operator(names: Names, text: str) -> str:
    """An operator of PyTorch's own; one that a user has made, or a range, becomes a neutral name."""
    return text if _OPERATOR.fullmatch(text) else names.of("operator", text)


def _operators(names: Names, text: str) -> str:
    return SEPARATOR.join(each if LEFT_OUT.fullmatch(each) else _operator(names, each)
                          for each in text.split(SEPARATOR))


#: Backward nodes that PyTorch makes end in a number; those of the user's functions do not.
_OPERATOR = re.compile(
    r"aten::\w+|(?:autograd::engine::evaluate_function: )?(?:torch::autograd::\w+|\w+Backward\d+|"
    r"CompiledFunctionBackward)|CompiledFunction|Torch-Compiled Region: \d+/\d+|TorchDynamo Cache Lookup")


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


#: A graph of which only the number is known, and kernels of NCCL, which are what processes are compared by.
_PUBLIC_NAME = re.compile(r"CUDA graph \d{1,20}|ncclDevKernel_[A-Za-z]+(?:_[A-Za-z0-9]+){0,8}")


def _activity(names: Names, text: str) -> str:
    """Keep a graph's number, and the name of a kernel of NCCL; leave out that of another kernel, or of a function."""
    match = _PUBLIC_NAME.match(text)
    return match[0] if match and text[match.end():match.end() + 1] in ("", "(") else names.of("other_kernel", text)


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


def _tuning(names: Names, text: str) -> str | None:
    """What an autotuner tried: times and numbers; arguments have neutral names."""
    held = _object(text) or {}
    kept: dict[str, Any] = {key: [_trial(names, mapping(each)) for each in held[key]]
                            for key in ("configurations", "pruned") if isinstance(held.get(key), list)}
    kept |= {key: held[key] for key in ("best", "cache_results", "has_pre_hook") if is_number(held.get(key))}
    return json.dumps(kept) if kept else None


def _trial(names: Names, trial: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {key: trial[key] for key in _MEASURED if key in trial and (
        trial[key] is None or is_number(trial[key]))}
    for key, is_word in (("arguments", False), ("options", True)):
        kept[key] = {name if is_word and name in _TUNED else names.of(key.removesuffix("s"), name):
                     value if is_number(value) or re.fullmatch(r"-?\d+|True|False|None", str(value)) else WITHHELD
                     for name, value in mapping(trial.get(key)).items()}
    error = trial.get("error")
    return kept if error is None else {**kept, "error": _exception(names, str(error))}


_MEASURED = ("ms", "host_ns", "compile_ns")
_TUNED = ("num_warps", "num_ctas", "num_stages", "maxnreg")

#: A metric as Nsight Compute names it, and its unit.
_METRIC, _UNIT = r"[a-z0-9]+__[a-z0-9_]+(?:\.[a-z_]+){0,3}", r"%|[a-z]{1,12}(?:/[a-z]{1,12})?"


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
_API = rf"(?:{PREFIXES}|cudart|nvtx)[A-Z]\w{{0,60}}|cuda\.core\.launch"
_MODEL = (r"[A-Z]{0,4}\d{1,4}(?:GB|MB|GiB)?|RTX|GTX|TITAN|Tesla|Quadro|GeForce|PCIe|HBM\d\w?|NVL|SXM\d|Ti|SUPER|Laptop|"
          r"GPU|Graphics|Ada|Generation|Blackwell|Pro|PRO|Workstation|Server|Edition|Max-Q|MIG|\dg\.\d+gb|X|V|Xp")
# Arguments of its algorithms, what of them counts, and its fields; a captured variable has a name of the user's.
_KEY_PARTS = _words(
    "d_in d_in1 d_in2 d_out d_in_keys d_in_values d_out_keys d_out_values d_in_items d_out_items d_values d_data "
    "d_samples d_histogram d_num_selected_out d_out_num_selected d_first_part_out d_second_part_out d_unselected_out "
    "h_init h_lower_level h_upper_level h_num_output_levels level_dtype num_items num_segments num_samples num_values "
    "num_output_levels num_bins lower_level upper_level start_offsets_in end_offsets_in op comp cond order selector "
    "select_first_part_op select_second_part_op begin_bit end_bit determinism compute_capability kind dtype dtypes "
    "name code state operator iterator type types target algorithm 2 3 4")

#: What redaction does with a text by the names that columns of the schema give it.
RULES: dict[str, Rule] = {
    "": _dropped, "activity": _activity, "api": _matching("api", _API), "arguments": _arguments,
    "capability": _matching("capability", r"\d+\.\d+[af]?"), "color": _matching("color", r"#[0-9a-fA-F]{6}"),
    "compile_attributes": _compile_attributes, "configuration": _configuration,
    "device": _matching("device", rf"(?:NVIDIA|Tesla|Quadro|GeForce|TITAN)(?: (?:{_MODEL}))*"),
    "driver_error": _driver_error, "exception": _exception, "file": _file, "hash": _hash, "key_parts": _key_parts,
    "metric": _matching("metric", _METRIC), "operator": _operator, "operators": _operators, "options": _options,
    "owner": _owner, "part_names": _part_names, "range": _range, "source_file": _source_file, "tuning": _tuning,
    "types": neutral_types, "unit": _matching("unit", _UNIT),
}


def rule_of(column: Column) -> Rule:
    """Return what redaction does with the texts of a column that are none of its values."""
    redaction = column.redaction
    return _named(*redaction) if isinstance(redaction, Neutral) else RULES[redaction]


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
        changed = _changed(held, partial(_shown, names, column.values, rule_of(column)), column.nullable)
        table = table.set_column(index, table.schema.field(index), changed)
    return table


def _shown(names: Names, values: Collection[str], rule: Rule, text: str) -> str | None:
    return text if text in values else rule(names, text)


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
