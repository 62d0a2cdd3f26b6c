"""``kernelscope inspect``: kernels, specializations and code of a ``.kscope`` file, as text or JSON."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelscope.analysis.find_kernels import find_kernels, find_specialization, sort_kernels
from kernelscope.analysis.inspection import Kernel, Specialization, code_text, inspect_kernels
from kernelscope.errors import CubinError, UnknownKernelError
from kernelscope.magic_output import progress
from kernelscope.nvdisasm import disassemble
from kernelscope.recording.io import load
from kernelscope.recording.privacy import shareable, shareable_code
from kernelscope.renderers.base import clean, clean_code
from kernelscope.renderers.inspection import inspection_text
from kernelscope.renderers.inspection_diff import code_diff, facts_diff
from kernelscope.renderers.inspection_words import HOW_TO_RECORD_CODE

if TYPE_CHECKING:
    from kernelscope.recording.model import Recording


def main(arguments: argparse.Namespace) -> int:
    """Print what was asked for; return the exit code."""
    if arguments.json and (arguments.code or arguments.diff):
        arguments.parser.error("--json has the facts; --code and --diff are for reading")
    if arguments.diff and arguments.specialization:
        arguments.parser.error("--diff names both specializations; --specialization has no place beside it")
    if arguments.kernel and not Path(arguments.file).exists() and Path(arguments.kernel).is_file():
        arguments.parser.error("FILE.kscope comes before the KERNEL; "
                               f"did you mean 'kernelscope inspect {arguments.kernel} {arguments.file}'?")
    recording = load(arguments.file, progress=progress(None, f"reading {arguments.file}"))
    if arguments.diff:
        print(_difference(recording, arguments.kernel, arguments.diff, arguments.code))
    elif arguments.code:
        _, chosen = find_specialization(_found(recording, arguments.kernel), arguments.specialization or 1)
        text = code_of(recording, chosen, arguments.code)
        # A file gets the code as it is; a terminal would obey escape sequences that a recording may hold.
        sys.stdout.write(clean_code(text) if sys.stdout.isatty() else text)
    elif arguments.json:
        print(json.dumps(_as_json(shareable(recording), arguments), indent=1))
    else:
        print(inspection_text(recording, arguments.kernel, arguments.specialization, None, arguments.sort))
    return 0


def code_of(recording: Recording, chosen: Specialization, kind: str) -> str:
    """Return one form of a specialization's code without paths, with a line break at its end.

    SASS that was not recorded is disassembled from the recorded machine code.

    Raises
    ------
    UnknownKernelError
        The recording does not hold it; the message says how to record it.
    DisassemblerError
        There is no nvdisasm, or it failed; the message says how to get it.
    """
    text = code_text(recording, chosen.specialization_id, kind)
    if text is None and kind == "sass":
        cubin = code_text(recording, chosen.specialization_id, "cubin")
        if cubin is not None:
            text = disassemble(_decoded(cubin, chosen))
    if text is None:
        held = f"it has {', '.join(chosen.code)}" if chosen.code else "it has no code"
        raise UnknownKernelError(
            f"{kind} of specialization {chosen.number} is not in the recording; {held}: {_why_missing(recording)}")
    text = shareable_code(kind, text)
    return _readable_types(text) if kind == "types" else text.rstrip("\n") + "\n"


def _difference(recording: Recording, name: str | None, pair: list[int], kind: str | None) -> str:
    kernels = _found(recording, name)
    (kernel, left), (_, right) = (find_specialization(kernels, number) for number in pair)
    parts = [facts_diff(kernel, left, right)]
    if kind:
        texts = code_of(recording, left, kind), code_of(recording, right, kind)
        parts.append(code_diff(kernel, left, right, texts, kind) or f"no difference in {kind}")
    elif not parts[0]:
        parts.append("no difference in types and resources")
    return "\n".join(part for part in parts if part)


def _found(recording: Recording, name: str | None) -> list[Kernel]:
    kernels = inspect_kernels(recording)
    return kernels if name is None else find_kernels(kernels, name)


def _as_json(recording: Recording, arguments: argparse.Namespace) -> dict[str, Any]:
    kernels = sort_kernels(_found(recording, arguments.kernel), arguments.sort)
    if arguments.specialization is None:
        return {"notice": recording.notice, "kernels": [asdict(each) for each in kernels]}
    kernel, chosen = find_specialization(kernels, arguments.specialization)
    return {"notice": recording.notice, "kernels": [asdict(kernel) | {"specializations": [asdict(chosen)]}]}


def _decoded(cubin: str, chosen: Specialization) -> bytes:
    try:
        return base64.b64decode(cubin, validate=True)
    except ValueError as error:
        raise CubinError(f"the machine code of specialization {chosen.number} is torn: {error}") from None


def _why_missing(recording: Recording) -> str:
    """What a recording that was made with code says of it, or how to make one."""
    if not recording.metadata.get("code"):
        return HOW_TO_RECORD_CODE
    said = [row["message"] for row in recording.rows("health") if "the code of some kernels" in (row["message"] or "")]
    return clean("; ".join(said)) or "numba-cuda had none, as of kernels that were compiled before and not launched"


def _readable_types(text: str) -> str:
    """Numba's types, recorded as JSON, as lines ``12  x: array(float32, 1d, C) = arg(0, name=x)``.

    What was inlined from another file has that file's name and line.
    """
    try:
        rows = json.loads(text)
        lines = [f"{row.get('from') or row['line']:>5}  {row['name']}: {row['type']}"
                 + (f" = {row['expr']}" if row.get("expr") else "") for row in rows]
    except (ValueError, KeyError, TypeError, RecursionError):
        return text + "\n"
    return "\n".join(lines) + "\n"
