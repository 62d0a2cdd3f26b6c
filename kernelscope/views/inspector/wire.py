"""The inspector's facts as its page takes them: every kernel and specialization, and one form of code at a time.

All kernels go over at once, without code: some hundred bytes a specialization. Code is asked for when it is looked at.
Rows are named by keys that are made of what they are, so that a choice stays when a recording grows.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kernelscope.analysis.columns import ints, json_object
from kernelscope.analysis.compile_time import Part, compile_times
from kernelscope.analysis.signatures import short_type
from kernelscope.cubin import disassemble
from kernelscope.recording.model import Recording
from kernelscope.units import size
from kernelscope.views.base import dims
from kernelscope.views.card import labels
from kernelscope.views.card.model import overview
from kernelscope.views.inspector.model import Compile, Kernel, Specialization, Use, inspect_kernels, line_map

#: Forms of code that the page shows; the machine code itself is only disassembled.
FORMS = ("source", "types", "mlir", "llvm", "ptx", "sass")

_WITHOUT_CODE = {
    True: "This recording holds no {what} of this specialization.",
    False: "Recorded without code.",
}
_RECORD_CODE = "Record it with %%kernelscope --code, or kernelscope.record(..., code=True)."
_WORDS = {"source": "source", "types": "inferred types", "mlir": "MLIR", "llvm": "LLVM IR", "ptx": "PTX",
          "sass": "machine code"}
_FROM_DISK = {
    "types": "Numba infers types while it compiles; this kernel was loaded from the disk cache.",
    "llvm": "The disk cache keeps no LLVM IR; this kernel was loaded from it.",
}


@dataclass(frozen=True)
class Code:
    """One form of a specialization's code.

    Attributes
    ----------
    text : str or None
        The code; None where there is none.
    note, fix : str
        Why there is none, or what to know of it; and what to do. Empty where there is nothing to say.
    first : int
        The number of its first line.
    name : str
        What to call it, as a file's name.
    lines : ndarray or None, shape (lines of the text,), int32
        The source line that each line came from, 0 for none; None where the code has no line information.
    """

    text: str | None
    note: str = ""
    fix: str = ""
    first: int = 1
    name: str = ""
    lines: NDArray[np.int32] | None = None

    @property
    def head(self) -> dict[str, Any]:
        """All but the text and the lines, as JSON values."""
        return {"note": self.note, "fix": self.fix, "first": self.first, "name": self.name,
                "has_text": self.text is not None, "has_lines": self.lines is not None}


def facts(recording: Recording, kernels: list[Kernel] | None = None) -> dict[str, Any]:
    """Return what the inspector's page shows of a recording, without its code, as JSON values."""
    kernels = inspect_kernels(recording) if kernels is None else kernels
    keys = specialization_keys(recording)
    advice: dict[str, list[str]] = {}
    for each in overview(recording).advice:
        if each.kernel:
            advice.setdefault(each.kernel, []).append(each.text)
    owners = kernel_keys(recording)
    return {
        "title": recording.name,
        "notice": recording.notice,
        "has_code": bool(recording.metadata.get("code")) or recording.arrow("code").num_rows > 0,
        "kernels": [_kernel(each, owners[each.dispatcher_id], keys, advice.get(each.name, [])) for each in kernels],
    }


def code_marks(recording: Recording) -> dict[str, int]:
    """Return by key a number for each specialization's machine code, another one after ``recompile()`` changed it."""
    keys = specialization_keys(recording)
    code = recording.arrow("code").select(["kind", "specialization_id", "text"])
    rows = code.take(np.flatnonzero(np.array(code["kind"].to_pylist()) == "cubin")).to_pylist()
    return {keys[row["specialization_id"]]: zlib.crc32(row["text"].encode())
            for row in rows if row["specialization_id"] in keys}


def kernel_keys(recording: Recording) -> dict[int, str]:
    """Return a name for each kernel by its row, made like those of `specialization_keys`."""
    seen: dict[str, int] = {}
    result: dict[int, str] = {}
    for row in recording.rows("dispatchers"):
        text = "\n".join(str(row[name]) for name in (
            "framework", "name", "module", "filename", "lineno", "options", "code_sha256"))
        result[row["dispatcher_id"]] = _numbered(_digest(text), seen)
    return result


def specialization_keys(recording: Recording) -> dict[int, str]:
    """Return a name for each specialization by its row: equal in all recordings that hold the same ones."""
    owners = kernel_keys(recording)
    seen: dict[str, int] = {}
    result: dict[int, str] = {}
    for row in recording.rows("specializations"):
        text = "\n".join(str(each) for each in (
            owners[row["dispatcher_id"]], row["signature"], row["compute_capability"], row["launch_config"]))
        result[row["specialization_id"]] = _numbered(_digest(text), seen)
    return result


def compile_parts(recording: Recording, specialization: Specialization) -> list[dict[str, Any]]:
    """Return where the time of each compile of a specialization went, as JSON values: parts inside parts."""
    cells = {each.compilation_id: each.cell for each in specialization.compiles}
    return [
        {"id": each.compilation_id, "outcome": each.outcome, "ns": each.duration_ns,
         "cell": None if each.compilation_id is None else cells.get(each.compilation_id),
         "parts": [_part(part) for part in each.parts]}
        for each in compile_times(recording) if each.specialization_id == specialization.specialization_id
    ]


def code(recording: Recording, kernel: Kernel, specialization: Specialization, form: str) -> Code:
    """Return one form of the code, as it was recorded, or why there is none.

    Parameters
    ----------
    recording : Recording
        What holds it.
    kernel, specialization
        Which one.
    form : str
        One of `FORMS`.

    Raises
    ------
    ValueError
        The form is none of these.
    DisassemblerError
        The machine code is there, and what disassembles it is not, or failed.
    """
    if form not in FORMS:
        raise ValueError(f"no code is called {form!r}; known: {', '.join(FORMS)}")
    held = _rows(recording, kernel.dispatcher_id, specialization.specialization_id)
    row: dict[str, Any] | None = held.get(form)
    note = ""
    if row is None and form == "sass" and "cubin" in held:
        row = {"text": disassemble(_bytes(held["cubin"]["text"])), "lineno": None, "attributes": None}
        note = "Disassembled here, from the recorded machine code."
    if row is None:
        if form == "llvm" and "mlir" in held:
            return Code(None, "numba-cuda-mlir writes its LLVM IR down only when it is asked.",
                        "Call the kernel's inspect_llvm() before the recording ends.")
        return _missing(recording, specialization, form, bool(held))
    if json_object(row["attributes"]).get("before_lto"):
        note = "This is the PTX from before link-time optimization; the machine code came out of that."
    text = _with_short_types(row["text"]) if form == "types" else row["text"]
    return _made(kernel, form, text, row["lineno"] or 1, note, held.get("types"))


def copied_code(recording: Recording, kernel: Kernel, specialization: Specialization, form: str,
                texts: Mapping[str, str]) -> Code:
    """Return one form of a copy that was compiled with line information: see `live.with_lineinfo`."""
    if form == "sass" and "sass" not in texts and "cubin" in texts:
        texts = {**texts, "sass": disassemble(_bytes(texts["cubin"]))}
    if form not in texts:
        return Code(None, f"The copy has no {_WORDS.get(form, form)}.")
    types = _rows(recording, kernel.dispatcher_id, specialization.specialization_id).get("types")
    return _made(kernel, form, texts[form], 1, "", types)


def place(kernel: Kernel) -> str:
    """Return where a kernel is defined, without this machine's path."""
    return labels.place(cast("Any", kernel))


# ---- Kernels and specializations ----


def _part(part: Part) -> list[Any]:
    return [part.kind, part.name, part.duration_ns, [_part(each) for each in part.parts]]


def _kernel(kernel: Kernel, key: str, keys: dict[int, str], advice: list[str]) -> dict[str, Any]:
    return {
        "key": key,
        "name": kernel.name,
        "framework": kernel.framework,
        "place": place(kernel),
        "file": kernel.filename,
        "arguments": list(kernel.arguments),
        "options": {name: str(value) for name, value in kernel.options.items()},
        "launches": kernel.launches,
        "compile_ns": kernel.compile_ns,
        "regs": kernel.regs,
        "advice": advice,
        "specializations": [_specialization(each, keys[each.specialization_id]) for each in kernel.specializations],
    }


def _specialization(each: Specialization, key: str) -> dict[str, Any]:
    return {
        "key": key,
        "number": each.number,
        "signature": each.signature,
        "arguments": [[name, short_type(text), text] for name, text in each.arguments],
        "cc": each.compute_capability,
        "regs": each.regs,
        "shared": each.static_shared_bytes,
        "local": each.local_bytes,
        "const": each.const_bytes,
        "spill_stores": each.spill_store_bytes,
        "spill_loads": each.spill_load_bytes,
        "max_threads": each.max_threads,
        "cubin": each.cubin_bytes,
        "origin": each.origin,
        "lcs": each.launch_config_sensitive,
        "bound": launch_config_text(each.launch_config),
        "compile_ns": each.compile_ns,
        "launches": each.launches,
        "host_ns": each.host_ns,
        "median_ns": each.median_ns,
        "uses": [_use(use) for use in each.uses],
        "compiles": [_compile(made) for made in each.compiles],
        "code": [kind for kind in each.code if kind != "cubin"],
    }


def _use(use: Use) -> dict[str, Any]:
    return {
        "grid": use.griddim, "block": use.blockdim, "cluster": use.cluster, "shared": use.sharedmem_bytes,
        "launches": use.launches, "median_ns": use.median_ns, "execute_ns": use.execute_ns,
        "occupancy": use.occupancy, "blocks": use.active_blocks, "limits": list(use.limited_by),
    }


def _compile(made: Compile) -> dict[str, Any]:
    return {
        "id": made.compilation_id, "outcome": made.outcome, "trigger": made.trigger, "ns": made.duration_ns,
        "code": made.reason_code, "reason": made.reason, "fix": made.fix, "cell": made.cell,
        "file": made.cache_file, "data": made.cache_data_file, "key": made.cache_key, "marker": made.lcs_marker,
    }


def launch_config_text(bound: Mapping[str, Any] | None) -> str | None:
    """Return the launch configuration that a specialization is bound to, such as ``grid 4, block 128, shared 0 B``."""
    if not bound:
        return None
    parts: list[str] = []
    for word, name in (("grid", "griddim"), ("block", "blockdim")):
        if isinstance(bound.get(name), (list, tuple)):
            parts.append(f"{word} {dims([int(each) for each in bound[name]])}")
    if isinstance(bound.get("sharedmem_bytes"), int):
        parts.append(f"shared {size(bound['sharedmem_bytes'])}")
    return ", ".join(parts) or json.dumps(dict(bound))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _numbered(key: str, seen: dict[str, int]) -> str:
    seen[key] = seen.get(key, 0) + 1
    return key if seen[key] == 1 else f"{key}.{seen[key]}"


# ---- Code ----


def _rows(recording: Recording, dispatcher_id: int, specialization_id: int) -> dict[str, dict[str, Any]]:
    """The rows of ``code`` that belong to a specialization, by kind."""
    owner, member = ints(recording, "code", "dispatcher_id"), ints(recording, "code", "specialization_id")
    mine = np.flatnonzero((owner == dispatcher_id) & ((member == specialization_id) | (member < 0)))
    rows = recording.arrow("code").take(mine).to_pylist() if len(mine) else []
    return {row["kind"]: row for row in rows}


def _missing(recording: Recording, specialization: Specialization, form: str, has_some: bool) -> Code:
    if has_some and specialization.origin == "disk" and form in _FROM_DISK:
        return Code(None, _FROM_DISK[form], "Clear the cache and compile it anew to see it.")
    if has_some and form == "source":
        return Code(None, "Its source could not be read when it was recorded: that of a function which exec() made is "
                          "nowhere.")
    was_on = has_some or bool(recording.metadata.get("code"))
    return Code(None, _WITHOUT_CODE[was_on].format(what=_WORDS[form]), "" if was_on else _RECORD_CODE)


def _made(kernel: Kernel, form: str, text: str, first: int, note: str, types: Mapping[str, Any] | None) -> Code:
    suffix = {"source": "py", "types": "json", "mlir": "mlir", "llvm": "ll", "ptx": "ptx", "sass": "sass"}[form]
    name = f"{kernel.name.rpartition('.')[2]}.{suffix}"
    lines = None if form in ("source", "types") else _source_lines(kernel, form, text)
    if lines is not None and types is not None:
        lines, said = _without_inlined(lines, types["text"], kernel.lineno)
        note = " ".join(each for each in (note, said) if each)
    return Code(text, note, "", first, name, lines)


def _without_inlined(lines: NDArray[np.int32], types: str, first: int | None) -> tuple[NDArray[np.int32] | None, str]:
    """The lines without those of functions inlined from other files, and what to know of those that remain.

    numba-cuda's line information counts such a function's lines as the kernel's file's; the types know better.
    """
    entries = [entry for entry in json.loads(types) if isinstance(entry, dict)]
    places = [str(entry["from"]).rpartition(":") for entry in entries if entry.get("from")]
    other = {int(line) for _, _, line in places if line.isdigit()}
    if not other:
        return lines, ""
    own = {entry.get("line") for entry in entries if not entry.get("from")} | {first}
    lines = np.where(np.isin(lines, list(other - own)), 0, lines).astype(np.int32)
    both = sorted(other & own & set(lines.tolist()))
    files = ", ".join(sorted({file for file, _, _ in places}))
    said = (f"Line {', '.join(map(str, both))} may be that of {files} too, of which functions are inlined: line "
            "information does not tell them apart.")
    return (lines if lines.any() else None), said if both else ""


def _with_short_types(text: str) -> str:
    """The recorded types with each one's short form beside it."""
    entries = [entry for entry in json.loads(text) if isinstance(entry, dict)]
    return json.dumps([entry | {"brief": short_type(str(entry.get("type")))} for entry in entries])


def _source_lines(kernel: Kernel, form: str, text: str) -> NDArray[np.int32] | None:
    """The line of the kernel's own file that each line came from; None where the code has no line information."""
    found = line_map(form, text)
    line, file = np.asarray(found.line, dtype=np.int32), np.asarray(found.file, dtype=np.int64)
    own = {at for at, name in enumerate(found.files) if _is_same(name, kernel.filename)}
    if not own and (file >= 0).any():
        # A cell of a notebook is In[3] to its user, and a temporary file to the compiler: that of most lines.
        own = {int(np.bincount(file[file >= 0]).argmax())}
    lines = np.where(np.isin(file, list(own)), line, 0).astype(np.int32)
    return lines if lines.any() else None


def _is_same(file: str, known: str | None) -> bool:
    """Whether two names are of one file; a saved recording has its name only."""
    if not known:
        return False
    return file == known or file.replace("\\", "/").rpartition("/")[2] == known.replace("\\", "/").rpartition("/")[2]


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise ValueError(f"the recorded machine code is not base64: {problem}") from None
