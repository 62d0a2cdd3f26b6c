"""The inspector in a notebook: kernels, their specializations and code, live, and what a page of it is sent.

The page is sent all kernels at once, without code: some hundred bytes a specialization. It asks for code and compile
times when they are looked at: with a message ``{"kind": "ask", "id": 7, "what": "code", ...}``, which is answered by
``{"kind": "answer", "id": 7, ...}`` with deflated buffers. A problem is an answer too, with an ``error`` that says what
is wrong. Kernels and specializations are named by the keys of `kernelscope.views.inspector.model`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from IPython.core.getipython import get_ipython

from kernelscope.analysis.code import type_entries
from kernelscope.analysis.compile_time import Part, compile_times
from kernelscope.analysis.signatures import short_type
from kernelscope.errors import KernelScopeError
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.base import write_text
from kernelscope.views.card.model import Overview
from kernelscope.views.inspector.counts import LineCounts, line_counts
from kernelscope.views.inspector.html import static_html
from kernelscope.views.inspector.model import (
    FORMS,
    Code,
    Kernel,
    Specialization,
    code_of,
    configuration_key,
    copied_code,
    find_kernels,
    framework_fields,
    inspect_kernels,
)
from kernelscope.views.inspector.text import inspection_text
from kernelscope.views.keys import kernel_keys, specialization_keys
from kernelscope.views.widget import View, close_deleted, deflated, front_end, message_of


class Source(Protocol):
    """Where an inspector's kernels come from."""

    @property
    def recording(self) -> Recording:
        """Return the current recording."""
        ...

    @property
    def is_live(self) -> bool:
        """Return whether cells can add kernels."""
        ...

    @property
    def can_compile(self) -> bool:
        """Return whether the kernels are objects of this process, so that a copy can be compiled."""
        ...

    def kernels(self) -> list[Kernel]:
        """Return the kernels that are shown."""
        ...

    def refresh(self) -> bool:
        """Look for what is new, and return whether `recording` is another one now."""
        ...

    def with_lineinfo(self, key: str) -> Mapping[str, str]:
        """Return the code of a copy, compiled with line information, of the specialization that a key names."""
        ...


class RecordingSource:
    """A finished recording as a `Source`."""

    is_live = False
    can_compile = False

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def kernels(self) -> list[Kernel]:
        """Return all of the recording."""
        return inspect_kernels(self.recording)

    def refresh(self) -> bool:
        """Return False: a recording stays as it is."""
        return False

    def with_lineinfo(self, key: str) -> Mapping[str, str]:
        """Refuse: there is no kernel to compile."""
        raise KernelScopeError("a recording holds no kernel that could be compiled: inspect the kernel itself")


class _Shown(NamedTuple):
    """What is shown, as one value: JupyterLab lets a page ask in a thread beside the one that runs cells."""

    recording: Recording
    kernels: list[Kernel]
    by_key: dict[str, tuple[Kernel, Specialization]]
    copies: dict[str, Mapping[str, str]]


class InspectorWidget(View):
    """The inspector as a widget.

    Parameters
    ----------
    source : Source
        What it shows.
    kernel : str, optional
        The name of the kernel to begin with: qualified, or its last part. Without one, the first.

    Attributes
    ----------
    source : Source
        As given.

    Raises
    ------
    UnknownKernelError
        There is no kernel of that name.
    """

    bundle = "inspector"
    _esm = front_end("inspector_widget")

    def __init__(self, source: Source, kernel: str | None = None) -> None:
        self.source = source
        self._followed: Any = None
        self._read()
        self._first = None if kernel is None else find_kernels(self._shown.kernels, kernel)[0].dispatcher_id
        super().__init__()

    @property
    def recording(self) -> Recording:
        """Return the recording that is shown; empty once the widget is closed."""
        return self._shown.recording

    @property
    def kernel(self) -> str | None:
        """Return the name of the kernel that was shown first, or None."""
        found = [each.name for each in self._shown.kernels if each.dispatcher_id == self._first]
        return found[0] if found else None

    def first_pair(self) -> tuple[str, str, str] | None:
        """Return the keys of two specializations to begin with side by side, and the tab; None for none."""
        return None

    def data(self) -> tuple[dict[str, Any], bytes]:
        """Return all kernels, without their code."""
        shown = self._shown
        content = kernels_message(shown.recording, shown.kernels, self.first_pair())
        content |= {"is_live": self.source.is_live, "can_compile": self.source.can_compile}
        # What is finished stays as it is.
        content["marks"] = code_marks(shown.recording) if self.source.is_live else {}
        content["first"] = kernel_keys(shown.recording).get(-1 if self._first is None else self._first)
        return {}, deflated(json.dumps(content, separators=(",", ":")).encode())

    def static_version(self) -> tuple[str, str]:
        """Return the same as text and as static HTML, without the paths of this machine: a notebook saves them."""
        recording = shareable(self._shown.recording)
        by_id = {each.dispatcher_id: each for each in inspect_kernels(recording)}
        kernels = [by_id[each.dispatcher_id] for each in self._shown.kernels]
        return repr(self), static_html(recording, kernels)

    def to_html(self, path: str | Path) -> Path:
        """Write the live view, with all code, as one HTML file that needs neither a server nor a kernel.

        Parameters
        ----------
        path : str or Path
            Where to; ``.html`` is added to a name without a suffix. An existing file is replaced.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        RecordingFileError
            It cannot be written, or would take the place of a recording.
        """
        from kernelscope.views.inspector.page import page  # which needs this module

        return write_text(path, ".html", page(self._shown.recording, self.kernel))

    def refresh(self) -> None:
        """Show what is new: specializations, launches and compiles since it was shown."""
        if not self.source.refresh():
            return
        first = self.kernel
        self._read()
        if first is not None:
            self._first = next((each.dispatcher_id for each in self._shown.kernels if each.name == first), None)
        self.send_data()
        self.publish_static(update=True)

    def asked(self, question: dict[str, Any]) -> None:
        """Answer a question of the page; whatever goes wrong is an answer too."""
        if question.get("what", "facts") == "facts":
            self.send_data()
            return
        try:
            message, packed = self.answer(question)
        except KernelScopeError as problem:
            message, packed = {"error": str(problem)}, []
        except KeyboardInterrupt:
            message, packed = {"error": "Interrupted: choose the tab again."}, []
        except Exception as problem:
            message, packed = {"error": message_of(problem)}, []
        self.send({"kind": "answer", "id": question.get("id"), **message}, packed)

    def answer(self, asked: Mapping[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Return what the page asked for: a message and its buffers.

        Parameters
        ----------
        asked : mapping
            ``what`` is ``code`` (with ``specialization``, a key, ``form``, and ``copy`` for a copy that was compiled
            with line information) or ``compiles`` (with ``specialization``).

        Raises
        ------
        KernelScopeError, ValueError
            It cannot be had; the message says why.
        """
        shown, key = self._shown, str(asked.get("specialization"))
        if key not in shown.by_key:
            raise KernelScopeError("this specialization is no longer there: the kernel was defined again")
        kernel, specialization = shown.by_key[key]
        if asked.get("what") == "compiles":
            held = compile_parts(shown.recording, specialization)
            return {}, [deflated(json.dumps(held).encode())]
        if asked.get("what") != "code":
            raise ValueError(f"what is {asked.get('what')!r}? known: code, compiles")
        form, counts = str(asked.get("form")), None
        if asked.get("copy"):
            if key not in shown.copies:
                shown.copies[key] = self.source.with_lineinfo(key)
            found = copied_code(shown.recording, kernel, specialization, form, shown.copies[key])
        else:
            found = code_of(shown.recording, kernel, specialization, form)
            counts = line_counts(shown.recording, kernel, specialization, form, found)
        return code_message(found, form, counts)

    def show(self) -> None:
        """Display the widget, which follows cells that can add kernels from then on."""
        super().show()
        shell: Any = get_ipython()
        if self.source.is_live and shell is not None and self._followed is None:
            shell.events.register("post_run_cell", self._after_cell)
            self._followed = shell

    def close(self) -> None:
        """Close the widget: follow no cells, and hold no kernel and no recording any more."""
        shell, self._followed = self._followed, None
        if shell is not None and self._after_cell in shell.events.callbacks["post_run_cell"]:
            shell.events.unregister("post_run_cell", self._after_cell)
        super().close()
        # IPython keeps what cells returned, for as long as the session lasts.
        self.source = RecordingSource(Recording({}, {}))
        self._read()

    def _read(self) -> None:
        recording, kernels = self.source.recording, self.source.kernels()
        keys = specialization_keys(recording)
        by_key = {keys[each.specialization_id]: (kernel, each) for kernel in kernels for each in kernel.specializations}
        self._shown = _Shown(recording, kernels, by_key, {})

    def _after_cell(self, result: Any) -> None:
        """Refresh after each cell that the user runs. IPython calls this."""
        try:
            close_deleted()
            self.refresh()
        except Exception as problem:
            self.send({"kind": "problem", "message": message_of(problem)})

    def __repr__(self) -> str:
        return inspection_text(self.recording, self.kernel)


# What the page is sent; frontend/inspector/wire.ts has its types.

def kernels_message(recording: Recording, kernels: list[Kernel],
                    pair: tuple[str, str, str] | None = None) -> dict[str, Any]:
    """Return what the page shows of a recording's kernels, without their code, as JSON values.

    `pair` is what it begins with side by side, as `InspectorWidget.first_pair` says.
    """
    keys = specialization_keys(recording)
    advice: dict[str, list[str]] = {}
    # Of two recordings together, what each did once would count as done twice.
    for each in Overview(recording).advice if pair is None else ():
        if each.kernel:
            advice.setdefault(each.kernel, []).append(each.text)
    owners = kernel_keys(recording)
    return {
        "title": recording.name,
        "notice": recording.notice,
        "pair": pair,
        "kernels": [_kernel(each, owners[each.dispatcher_id], keys, advice.get(each.name, [])) for each in kernels],
    }


def code_marks(recording: Recording) -> dict[str, int]:
    """Return by key a number for each specialization's machine code, another one after ``recompile()`` changed it."""
    keys = specialization_keys(recording)
    code = recording.arrow("code").select(["kind", "specialization_id", "text"])
    rows = code.take(np.flatnonzero(np.array(code["kind"].to_pylist()) == "cubin")).to_pylist()
    return {keys[row["specialization_id"]]: zlib.crc32(row["text"].encode())
            for row in rows if row["specialization_id"] in keys}


def compile_parts(recording: Recording, specialization: Specialization) -> list[dict[str, Any]]:
    """Return where the time of each compile of a specialization went, as JSON values: parts inside parts."""
    cells = {each.compilation_id: each.cell for each in specialization.compiles}
    return [
        {"id": each.compilation_id, "outcome": each.outcome, "ns": each.duration_ns,
         "cell": None if each.compilation_id is None else cells.get(each.compilation_id),
         "parts": [_part(part) for part in each.parts]}
        for each in compile_times(recording) if each.specialization_id == specialization.specialization_id
    ]


def code_message(found: Code, form: str, counts: LineCounts | None = None) -> tuple[dict[str, Any], list[bytes]]:
    """Return the answer with one form of code: a message, and as buffers the text, its source lines, and its ties."""
    text = found.text or ""
    if form == "types" and text:
        # Each type is sent with its short form.
        text = json.dumps([entry | {"brief": short_type(str(entry.get("type")))} for entry in type_entries(text)
                           if entry])
    lines = np.empty(0, np.int32) if found.lines is None else found.lines
    ties = np.empty(0, np.int32) if found.ties is None else found.ties
    message = {"note": found.note, "fix": found.fix, "first": found.first, "name": found.name,
               "has_text": found.text is not None, "has_lines": found.lines is not None,
               "chains": [[[name, line] for name, line in chain] for chain in found.chains],
               "counts": None if counts is None else counts.message()}
    return message, [deflated(text.encode("utf-8", "replace")),
                     *(deflated(each.astype("<i4").tobytes()) for each in (lines, ties))]


def _part(part: Part) -> list[Any]:
    return [part.kind, part.name, part.duration_ns, [_part(each) for each in part.parts]]


def _kernel(kernel: Kernel, key: str, keys: dict[int, str], advice: list[str]) -> dict[str, Any]:
    return _fields(
        kernel, "dispatcher_id", "framework", "module", "filename", "lineno", key=key, place=kernel.place,
        options={name: str(value) for name, value in kernel.options.items()}, launches=kernel.launches,
        compile_ns=kernel.compile_ns, regs=kernel.regs, advice=advice,
        specializations=[_specialization(each, keys[each.specialization_id]) for each in kernel.specializations])


def _specialization(each: Specialization, key: str) -> dict[str, Any]:
    return _fields(
        each, "specialization_id", "signature", "captured", "host_ns", "launch_config", "attributes", key=key,
        arguments=[[name, short_type(text), text] for name, text in each.arguments],
        bound=configuration_key(each.launch_config), recording=each.attributes.get("recording"),
        more=[[field.label, field.text] for field in framework_fields(each)], uses=[_fields(use) for use in each.uses],
        compiles=[_fields(made, "compilation_id", "steps") for made in each.compiles],
        code=[kind for kind in each.code if kind in FORMS])


def _fields(row: Any, *without: str, **more: Any) -> dict[str, Any]:
    """Return a dataclass's fields by name, but for some; `more` replaces and adds."""
    return {each.name: getattr(row, each.name) for each in fields(row) if each.name not in without} | more
