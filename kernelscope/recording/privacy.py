"""What leaves the machine: a recording, a study or a report without the paths of the machine on which it was made.

`shareable` decides for every way out of a recording: files, tables, traces, pages, what is printed, and the cards and
pictures that a notebook saves. `shareable_values` decides for what is no recording, and `shareable_code` for one text
of code.

- Columns that the schema marks as paths keep the file's name.
- In JSON, in messages (errors, reasons, fixes, health) and in the metadata, a path keeps the file's name.
- Code keeps of each source file the name: PTX, SASS, LLVM, MLIR and types. What a debugger needs is left out of PTX,
  and so is a cubin with line information: both hold paths that cannot be cut.
- In every text, the source of cells and kernels included, the home folder becomes ``~`` and the working folder ``.``.

So source keeps a path that its author typed, unless it leads into one of these two folders;
``source_sha256`` stays that of the source as it was. A path with blanks is found where it is quoted, or leads into one
of the two folders. A user's or host's name is not looked for outside of paths.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast
from weakref import WeakKeyDictionary

import pyarrow as pa

from kernelscope import cubin
from kernelscope.errors import CubinError
from kernelscope.recording.arrow import table_of_rows
from kernelscope.recording.integrity import JSON_COLUMNS
from kernelscope.recording.model import Recording
from kernelscope.schema import TABLES, Column

_MESSAGES = ("error", "reason", "fix", "message")

# The folders of a path, not of a URL and not of a ratio such as ns/op; what follows is the file's name.
_POSIX_FOLDERS = re.compile(r"""(?<![\w/~.])(?:file://|[~.])?/(?:[^\s/"'`<>|:;,()\[\]{}]+/)+(?=[^\s/])""")
_WINDOWS_FOLDERS = re.compile(r"""(?<!\w)[A-Za-z]:[\\/](?:[^\s\\/"'`<>|:;,]+[\\/]+)+(?=[^\s\\/])""")
# In quotes it may have blanks.
_QUOTED_FOLDERS = re.compile(r"""(?<=['"])(?:[~.]?/|[A-Za-z]:[\\/])[^'"\n]*[\\/](?=[^'"\n\\/]+['"])""")

# What was made of a recording, and for which folders; None where nothing had to be cut.
_made: WeakKeyDictionary[Recording, tuple[Any, Recording | None]] = WeakKeyDictionary()

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
    found = _made.get(recording)
    if found is not None and found[0] == folders:
        return recording if found[1] is None else found[1]
    held = {name: recording.arrow(name) for name in TABLES}
    tables = {name: _cut_table(name, table, folders) for name, table in held.items()}
    metadata = cast("dict[str, Any]", _cut_values(dict(recording.metadata), partial(_cut_prose, folders)))
    if metadata == recording.metadata and all(tables[name] is table for name, table in held.items()):
        _made[recording] = folders, None  # itself would keep it alive
        return recording
    made = Recording(tables, metadata)
    _made[recording], _made[made] = (folders, made), (folders, None)
    return made


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
        if column.dtype not in ("string", "category"):
            continue
        cut = _cut_column(table.column(index), _cutter(column, folders))
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


def _cutter(column: Column, folders: list[tuple[re.Pattern[str], str]]) -> Callable[[str], str]:
    if column.is_path:
        return _file_name
    if column.name in JSON_COLUMNS:
        return partial(_cut_json, folders)
    if column.name in _MESSAGES:
        return partial(_cut_prose, folders)
    return partial(_cut_folders, folders)


def _cut_column(column: pa.ChunkedArray, cut: Callable[[str], str]) -> pa.ChunkedArray | None:
    """The column with each distinct text cut, or None where that changes nothing."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    chunks: list[Any] = []
    changed = False
    for chunk in encoded.chunks:
        before: list[str] = chunk.dictionary.to_pylist()
        after = [cut(text) for text in before]
        changed = changed or after != before
        # Two paths can have become one name; a dictionary holds each text once.
        distinct = {text: code for code, text in enumerate(dict.fromkeys(after))}
        codes = pa.array([distinct[text] for text in after], pa.int32())
        chunks.append(pa.DictionaryArray.from_arrays(codes.take(chunk.indices), pa.array(list(distinct), pa.string())))
    if not changed:
        return None
    return pa.chunked_array(chunks, encoded.type).cast(column.type)


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


_CODE_CUTTERS: dict[str, Callable[[list[tuple[re.Pattern[str], str]], str], str]] = {
    "types": _cut_json, "mlir": _cut_mlir, "llvm": _cut_code_text, "ptx": _cut_code_text, "sass": _cut_code_text}
