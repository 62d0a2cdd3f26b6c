"""A recording without the paths of the machine on which it was made.

- Columns that the schema marks as paths keep the file's name.
- In JSON, in messages (errors, reasons, fixes, health) and in the metadata, an absolute path keeps the file's name.
- Code keeps of each source file the name: PTX, SASS, LLVM, MLIR and types. What a debugger needs is left out of PTX,
  and so is a cubin with line information: both hold paths that cannot be cut.
- In every text, the source of cells and kernels included, the home folder becomes ``~`` and the working folder ``.``.

So source keeps a path that its author typed, unless it leads into one of these two folders;
``source_sha256`` stays that of the source as it was. A user's or host's name is not looked for outside of paths.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from kernelscope import cubin
from kernelscope.errors import CubinError
from kernelscope.recording.arrow import table_of_rows
from kernelscope.recording.integrity import JSON_COLUMNS
from kernelscope.schema import TABLES, Column

_MESSAGES = ("error", "reason", "fix", "message")

# The folders of an absolute path, not of a URL and not of a ratio such as ns/op; what follows is the file's name.
_POSIX_FOLDERS = re.compile(r"""(?:\bfile://|(?<![\w/~.]))/(?:[^\s/"'`<>|:;,()\[\]{}]+/)+(?=[^\s/])""")
_WINDOWS_FOLDERS = re.compile(r"""(?<!\w)[A-Za-z]:[\\/](?:[^\s\\/"'`<>|:;,]+[\\/]+)+(?=[^\s\\/])""")

# A debugger's sections in PTX hold paths as bytes.
_DEBUG_SECTION = re.compile(r"^([ \t]*\.section[ \t]+\.debug_\w+)\s*\{.*?^[ \t]*\}", re.MULTILINE | re.DOTALL)
_SOURCE_FILE = re.compile(r'(\.file[ \t]+\d+[ \t]+|//## File |inlined at |\bfilename: )"([^"\n]*)"')
_MLIR_FILE = re.compile(r'(\bloc\()"([^"\n]*)"(?=:\d)')
_MLIR_FOLDER = re.compile(r'(\bdi_file<"[^"\n]*" in )"[^"\n]*"')
_LLVM_FOLDER = re.compile(r'\bdirectory: "[^"]*"')


def cut_paths(
    tables: Mapping[str, pa.Table], metadata: Mapping[str, Any]
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    """Return the tables and the metadata without absolute paths; tables without any are the same objects."""
    folders = _own_folders()
    cleaned = {name: _cut_table(name, table, folders) for name, table in tables.items()}
    return cleaned, cast("dict[str, Any]", _cut_values(dict(metadata), partial(_cut_prose, folders)))


def cut_own_folders(values: Any) -> Any:
    """Return JSON values in whose texts ``~`` stands for the home folder and ``.`` for the working folder."""
    return _cut_values(values, partial(_cut_folders, _own_folders()))


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
    text = _cut_folders(folders, text)
    return _WINDOWS_FOLDERS.sub("", _POSIX_FOLDERS.sub("", text))


def _cut_json(folders: list[tuple[re.Pattern[str], str]], text: str) -> str:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return _cut_prose(folders, text)
    cut = _cut_values(content, partial(_cut_prose, folders))
    return text if cut == content else json.dumps(cut, ensure_ascii=False)


def _cut_values(value: Any, cut: Callable[[str], str]) -> Any:
    """JSON values with every text in them cut, keys included."""
    if isinstance(value, str):
        return cut(value)
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {cut(key) if isinstance(key, str) else key: _cut_values(item, cut) for key, item in items}
    if isinstance(value, list | tuple):
        return [_cut_values(item, cut) for item in cast("list[Any]", value)]
    return value


_CODE_CUTTERS: dict[str, Callable[[list[tuple[re.Pattern[str], str]], str], str]] = {
    "types": _cut_json, "mlir": _cut_mlir, "llvm": _cut_code_text, "ptx": _cut_code_text, "sass": _cut_code_text}
