"""The inspector in a notebook: kernels, their specializations and code, live and as a static twin.

The page is given the facts of all kernels at once, and asks for code and compile times when they are looked at: with
a message ``{"kind": "ask", "id": 7, "what": "code", ...}``, which is answered by ``{"kind": "answer", "id": 7, ...}``
with deflated buffers. A problem is an answer too, with an ``error`` that says what is wrong.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from IPython.core.getipython import get_ipython

from kernelscope.errors import KernelScopeError
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.inspector import html, wire
from kernelscope.views.inspector.model import Kernel, Specialization, find_kernels, inspect_kernels
from kernelscope.views.inspector.text import inspection_text
from kernelscope.views.widget import View, close_deleted, front_end

#: Code of more bytes is packed faster, and a little larger.
_LONG = 100_000


class Source(Protocol):
    """Where an inspector's kernels come from."""

    @property
    def recording(self) -> Recording:
        """What holds the kernels now."""
        ...

    @property
    def is_live(self) -> bool:
        """Whether there can be more of them after each cell."""
        ...

    @property
    def can_compile(self) -> bool:
        """Whether they are objects of this process, of which a copy can be compiled."""
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
        self.on_msg(_received)

    @property
    def recording(self) -> Recording:
        """What is shown; empty once the widget is closed."""
        return self._shown.recording

    @property
    def kernel(self) -> str | None:
        """The name of the kernel that it began with, or None."""
        found = [each.name for each in self._shown.kernels if each.dispatcher_id == self._first]
        return found[0] if found else None

    def send_data(self) -> None:
        """Send the facts of all kernels; a problem is sent as what it says."""
        try:
            shown = self._shown
            held = wire.facts(shown.recording, shown.kernels)
            held |= {"is_live": self.source.is_live, "can_compile": self.source.can_compile}
            # What is finished stays as it is.
            held["marks"] = wire.code_marks(shown.recording) if self.source.is_live else {}
            held["first"] = wire.kernel_keys(shown.recording).get(-1 if self._first is None else self._first)
        except Exception as problem:
            self.send({"kind": "error", "message": f"{type(problem).__name__}: {problem}"})
        else:
            self.send({"kind": "data"}, [_deflated(json.dumps(held, separators=(",", ":")).encode())])

    def twin(self) -> tuple[str, str]:
        """Return the same as text and as static HTML, without the paths of this machine: a notebook saves them."""
        recording = shareable(self._shown.recording)
        by_id = {each.dispatcher_id: each for each in inspect_kernels(recording)}
        kernels = [by_id[each.dispatcher_id] for each in self._shown.kernels]
        return inspection_text(recording, self.kernel), html.static_html(recording, kernels)

    def refresh(self) -> None:
        """Show what is new: specializations, launches and compiles since it was shown."""
        if not self.source.refresh():
            return
        first = self.kernel
        self._read()
        if first is not None:
            self._first = next((each.dispatcher_id for each in self._shown.kernels if each.name == first), None)
        self.send_data()
        self.show_twin_again()

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
            held = wire.compile_parts(shown.recording, specialization)
            return {}, [_deflated(json.dumps(held).encode())]
        if asked.get("what") != "code":
            raise ValueError(f"what is {asked.get('what')!r}? known: code, compiles")
        form = str(asked.get("form"))
        if asked.get("copy"):
            if key not in shown.copies:
                shown.copies[key] = self.source.with_lineinfo(key)
            found = wire.copied_code(
                shown.recording, kernel, specialization, form, shown.copies[key])
        else:
            found = wire.code(shown.recording, kernel, specialization, form)
        lines = np.empty(0, np.int32) if found.lines is None else found.lines
        text = (found.text or "").encode("utf-8", "replace")
        return found.head, [_deflated(text), _deflated(lines.astype("<i4").tobytes())]

    def close(self) -> None:
        """Close the widget: follow no cells, and hold no kernel and no recording any more."""
        self._unfollow()
        super().close()
        # IPython keeps what cells returned, for as long as the session lasts.
        self.source = RecordingSource(Recording({}, {}))
        self._read()

    def _read(self) -> None:
        recording, kernels = self.source.recording, self.source.kernels()
        keys = wire.specialization_keys(recording)
        by_key = {keys[each.specialization_id]: (kernel, each) for kernel in kernels for each in kernel.specializations}
        self._shown = _Shown(recording, kernels, by_key, {})

    def _follow(self, shell: Any) -> None:
        if self._followed is None and shell is not None:
            shell.events.register("post_run_cell", self._after_cell)
            self._followed = shell

    def _unfollow(self) -> None:
        shell, self._followed = self._followed, None
        if shell is not None and self._after_cell in shell.events.callbacks["post_run_cell"]:
            shell.events.unregister("post_run_cell", self._after_cell)

    def _after_cell(self, result: Any) -> None:
        """Refresh after each cell that the user runs. IPython calls this."""
        try:
            close_deleted()
            self.refresh()
        except Exception as problem:
            self.send({"kind": "problem", "message": f"{type(problem).__name__}: {problem}"})

    def _ipython_display_(self) -> None:
        shell: Any = get_ipython()
        if shell is not None and "text/html" not in getattr(shell.display_formatter, "active_types", ()):
            print(inspection_text(self.recording, self.kernel))
            return
        self.show()
        if self.source.is_live:
            self._follow(shell)

    def __repr__(self) -> str:
        return inspection_text(self.recording, self.kernel)


def _received(widget: InspectorWidget, content: object, buffers: object) -> None:
    """Answer what a page asks; whatever goes wrong is an answer too."""
    asked = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    if asked.get("kind") != "ask":
        return
    if asked.get("what", "facts") == "facts":
        widget.send_data()
        return
    try:
        message, packed = widget.answer(asked)
    except KernelScopeError as problem:
        message, packed = {"error": str(problem)}, []
    except KeyboardInterrupt:
        message, packed = {"error": "Interrupted: choose the tab again."}, []
    except Exception as problem:
        message, packed = {"error": f"{type(problem).__name__}: {problem}"}, []
    widget.send({"kind": "answer", "id": asked.get("id"), **message}, packed)


def _deflated(data: bytes) -> bytes:
    """A raw deflate stream; of long code a little larger, and there five times sooner."""
    packer = zlib.compressobj(6 if len(data) < _LONG else 1, wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()
