"""What features draw live in the card: beside the timeline in a notebook, and on a page."""

from __future__ import annotations

from kernelscope.analysis.columns import row_count
from kernelscope.recording.model import Recording
from kernelscope.registry import LiveDrawing, features, loaded


def front_ends() -> list[str]:
    """Return the front ends of all features."""
    return [feature.card.live.front_end for feature in features() if feature.card and feature.card.live]


def drawings(recording: Recording) -> list[LiveDrawing]:
    """Return what there may be to draw of a recording: that of features of whose tables one has a row."""
    return [feature.card.live for feature in features() if feature.card and feature.card.live
            and any(row_count(recording, table) for table in feature.card.tables)]


def header_of(recording: Recording) -> dict[str, str]:
    """Return what a page's header has of it: data as base64 by front end."""
    data = {drawing.front_end: loaded(drawing.data)(recording) for drawing in drawings(recording)}
    return {front_end: text for front_end, text in data.items() if text}


def page_of(recording: Recording, header: dict[str, str]) -> str:
    """Return the front end of a page that shows the timeline, and what its header has."""
    return next((drawing.page for drawing in drawings(recording) if drawing.front_end in header), "timeline_page")
