"""The flame graph in a notebook: a live widget, and static SVG in its place in a saved notebook."""

from __future__ import annotations

from typing import Any

import traitlets

from kernelscope.errors import KernelScopeError
from kernelscope.features.call_paths.flame import HOW_TO, flame_of
from kernelscope.features.call_paths.svg import element
from kernelscope.features.call_paths.text import call_paths_text
from kernelscope.features.call_paths.wire import pack
from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.widget import View, checked_height, front_end


class FlameWidget(View):
    """The call paths of a recording as a flame graph.

    Parameters
    ----------
    recording : Recording
        What to show.
    height : int, optional
        The most that it takes of the page's height, in pixels.

    Attributes
    ----------
    height : int
        As given, or 0.

    Raises
    ------
    KernelScopeError
        No call paths were recorded; the message says how to record them.
    ValueError
        The height is not positive.
    """

    bundle = "flame"
    _esm = front_end("widget")

    height = traitlets.Int(0, min=0).tag(sync=True)
    #: What a page calls it where it cannot be shown.
    what = traitlets.Unicode("the flame graph").tag(sync=True)

    def __init__(self, recording: Recording, height: int | None = None) -> None:
        found = flame_of(shareable(recording))
        if found is None:
            raise KernelScopeError(HOW_TO)
        self._flame = found
        self._text = call_paths_text(recording)
        super().__init__(height=checked_height(height, "call paths need"))

    def data(self) -> tuple[dict[str, Any], bytes]:
        """Return the flame graph, packed."""
        return {"header": {}}, pack(self._flame)

    def static_version(self) -> tuple[str, str]:
        """Return the heaviest call paths as text, and the flame graph as static SVG."""
        return self._text, element(self._flame)

    def __repr__(self) -> str:
        return self._text


def flame(recording: Recording, height: int | None = None) -> FlameWidget:
    """Return the call paths of a recording as a flame graph, which a notebook shows live and, once saved, as a picture.

    Parameters
    ----------
    recording : Recording
        What to show: recorded with ``stacks=True``.
    height : int, optional
        The most that it takes of the page's height, in pixels.

    Raises
    ------
    KernelScopeError
        No call paths were recorded; the message says how to record them.
    ValueError
        The height is not positive.
    """
    return FlameWidget(recording, height)
