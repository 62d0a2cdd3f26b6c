"""The inspector as a page of its own: kernels with all of their code, live without a kernel of Python."""

from __future__ import annotations

import base64
import json
from typing import Any

from kernelscope.errors import KernelScopeError
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.base import escape
from kernelscope.views.html import FRAMED, document
from kernelscope.views.inspector.counts import line_counts
from kernelscope.views.inspector.html import static_html
from kernelscope.views.inspector.model import (
    FORMS,
    Kernel,
    Specialization,
    code_of,
    find_kernels,
    inspect_kernels,
)
from kernelscope.views.inspector.widget import code_message, compile_parts, kernels_message
from kernelscope.views.keys import kernel_keys, specialization_keys
from kernelscope.views.widget import deflated, front_end

_NO_SCRIPT = "The live view needs JavaScript, and a browser of 2023 or later."


def page(recording: Recording, kernel: str | None = None, *, paths: bool = False) -> str:
    """Return the live inspector as one HTML document, which fetches nothing, and runs no script but its own.

    Parameters
    ----------
    recording : Recording
        What holds the kernels.
    kernel : str, optional
        The name of the kernel to begin with: qualified, or its last part. Without one, the first.
    paths : bool
        Keep full paths of this machine.

    Raises
    ------
    UnknownKernelError
        There is no kernel of that name.
    """
    recording = shareable(recording, paths=paths)
    kernels = inspect_kernels(recording)
    first = kernel_keys(recording).get(-1 if kernel is None else find_kernels(kernels, kernel)[0].dispatcher_id)
    content = {"facts": kernels_message(recording, kernels)
               | {"is_live": False, "can_compile": False, "marks": {}, "first": first},
               "answers": _answers(recording, kernels)}
    payload = base64.b64encode(deflated(json.dumps(content, separators=(",", ":")).encode())).decode("ascii")
    body = (f'<main><div id="kernelscope-inspector"><noscript><p>{escape(_NO_SCRIPT)}</p>'
            f"{static_html(recording, kernels)}</noscript></div></main>\n"
            f'<script type="application/octet-stream" id="kernelscope-payload">{payload}</script>\n')
    title = " · ".join(["Inspector", *([recording.name] if recording.name else []), "KernelScope"])
    return document(title, body, FRAMED, front_end("inspector_page"))


def _answers(recording: Recording, kernels: list[Kernel]) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Return what the page can ask for: by a specialization's key and a form its code, by the key its compiles."""
    keys = specialization_keys(recording)
    found: dict[str, tuple[dict[str, Any], list[str]]] = {}
    for kernel in kernels:
        for each in kernel.specializations:
            key = keys[each.specialization_id]
            found[key] = {}, [_text(deflated(json.dumps(compile_parts(recording, each)).encode()))]
            found |= {f"{key} {form}": _code(recording, kernel, each, form) for form in FORMS}
    return found


def _code(recording: Recording, kernel: Kernel, each: Specialization, form: str) -> tuple[dict[str, Any], list[str]]:
    try:
        code = code_of(recording, kernel, each, form)
        message, buffers = code_message(code, form, line_counts(recording, kernel, each, form, code))
    except KernelScopeError as problem:  # as a notebook's view says it where the form is looked at
        return {"error": str(problem)}, []
    return message, [_text(buffer) for buffer in buffers]


def _text(buffer: bytes) -> str:
    return base64.b64encode(buffer).decode("ascii")
