"""The timeline in a notebook: a live widget, and static SVG in its place in a saved notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ipywidgets
import traitlets

from kernelscope.recording.model import Recording
from kernelscope.recording.redact import shareable
from kernelscope.views.live import drawings, front_ends, header_of
from kernelscope.views.timeline.build import timeline_of
from kernelscope.views.timeline.overview import with_overview
from kernelscope.views.timeline.svg import describe, image
from kernelscope.views.timeline.wire import pack
from kernelscope.views.widget import FrontEnd, View, checked_height, front_end, shared_front_end

if TYPE_CHECKING:
    _Drawn = View
else:
    # By its name, the front end of what each feature draws live in the card beside it, where the recording has any.
    _Drawn = type(View)("_Drawn", (View,), {"__module__": __name__, **{
        name: traitlets.Instance(FrontEnd, allow_none=True).tag(sync=True, **ipywidgets.widget_serialization)
        for name in front_ends()}})


class TimelineWidget(_Drawn):
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
        self.recording = recording
        self._inspector: View | None = None
        super().__init__(height=checked_height(height, "lanes need"), **{
            drawing.front_end: shared_front_end(drawing.front_end) for drawing in drawings(recording)})

    def data(self) -> tuple[dict[str, Any], bytes]:
        """Return the header, with what the card beside it draws live, and the payload."""
        shown = timeline_of(self.recording)
        packed = with_overview(pack(shown), shown)
        return {"header": packed.header | header_of(self.recording)}, packed.payload

    def asked(self, question: dict[str, Any]) -> None:
        """Answer a question of the page: with the data, or with an inspector of the recording, which the page shows."""
        if question.get("what") != "inspector":
            super().asked(question)
            return
        from kernelscope.views.inspector.widget import InspectorWidget, RecordingSource

        if self._inspector is None:
            self._inspector = InspectorWidget(RecordingSource(self.recording))
            self._inspector.send({"kind": "coming"})
            self._inspector.send_data()
        self.send({"kind": "inspector", "model": self._inspector.model_id})

    def close(self) -> None:
        """Close the view, and the inspector that was opened from it."""
        if self._inspector is not None:
            self._inspector.close()
        super().close()

    def static_version(self) -> tuple[str, str]:
        """Return the static SVG: in a line, and as an image."""
        shown = timeline_of(shareable(self.recording))
        return describe(shown), image(shown)


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
