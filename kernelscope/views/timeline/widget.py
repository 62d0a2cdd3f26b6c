"""The timeline in a notebook: a live widget, and static SVG in its place in a saved notebook."""

from __future__ import annotations

from typing import cast

import traitlets

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.svg import describe, image
from kernelscope.views.timeline.wire import pack
from kernelscope.views.widget import View, front_end


class TimelineWidget(View):
    """The timeline of a recording as a widget.

    Shown by itself it leaves a picture in a saved notebook; as a part of another widget it is the live view alone.
    The data are sent when it is shown, and again when a page that was loaded anew asks for them; they are no part of
    the widget's state, so that neither the kernel nor a notebook saved with its widgets keeps them.

    Parameters
    ----------
    recording : Recording
        What to show.
    height : int, optional
        The view's height in pixels; by default as high as its lanes need, within limits.

    Attributes
    ----------
    recording : Recording
        What is shown.
    height : int
        As given, or 0.
    """

    bundle = "timeline"
    _esm = front_end("widget")

    height = traitlets.Int(0, min=0).tag(sync=True)

    def __init__(self, recording: Recording, height: int | None = None) -> None:
        if height is not None and height <= 0:
            raise ValueError(f"height {height} is no height: give pixels, or None for as many as the lanes need")
        self.recording = recording
        super().__init__(height=height or 0)
        self.on_msg(_answer)

    def send_data(self) -> None:
        """Send header and payload to the page; a problem is sent as what it says."""
        try:
            packed = pack(timeline_of(self.recording))
        except Exception as problem:
            self.send({"kind": "error", "message": f"{type(problem).__name__}: {problem}"})
        else:
            self.send({"kind": "data", "header": packed.header}, [packed.payload])

    def twin(self) -> tuple[str, str]:
        """Return the picture: in a line, and as an image."""
        shown = timeline_of(shareable(self.recording))
        return describe(shown), image(shown)

    def _ipython_display_(self) -> None:
        self.show()


def timeline(recording: Recording, height: int | None = None) -> TimelineWidget:
    """Return the timeline of a recording, which a notebook shows live and, once saved, as a picture.

    Parameters
    ----------
    recording : Recording
        What to show.
    height : int, optional
        Its height in pixels; by default as high as its lanes need, within limits.

    Raises
    ------
    ValueError
        The height is not positive.
    """
    return TimelineWidget(recording, height)


def _answer(widget: TimelineWidget, content: object, buffers: object) -> None:
    if isinstance(content, dict) and cast("dict[str, object]", content).get("kind") == "ask":
        widget.send_data()
